#include "datasets/array.hpp"

#include "datasets/errors.hpp"
#include "datasets/parallel.hpp"

#include <cmath>
#include <fmt/core.h>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace clusterbench::datasets {

std::size_t size_of(ElementType type) {
  switch (type) {
  case ElementType::f32:
  case ElementType::i32:
    return 4;
  case ElementType::f64:
  case ElementType::i64:
    return 8;
  case ElementType::u8:
    return 1;
  }
  throw std::logic_error("size_of: unknown element type");
}

std::string_view name_of(ElementType type) {
  switch (type) {
  case ElementType::f32:
    return "f32";
  case ElementType::f64:
    return "f64";
  case ElementType::i32:
    return "i32";
  case ElementType::i64:
    return "i64";
  case ElementType::u8:
    return "u8";
  }
  throw std::logic_error("name_of: unknown element type");
}

std::size_t checked_bytes(ElementType type, std::size_t rows, std::size_t cols,
                          std::string_view what) {
  const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
  std::size_t count = 0;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(rows, cols, &count) ||
      __builtin_mul_overflow(count, size_of(type), &bytes) || bytes > memory)
    throw InputError(fmt::format("{}: {} x {} {} is more than this machine's {} bytes of memory",
                                 what, rows, cols, name_of(type), memory));
  return bytes;
}

Array Array::allocate(ElementType type, std::size_t rows, std::size_t cols, std::string_view what) {
  const std::size_t bytes = checked_bytes(type, rows, cols, what);
  Array array(type, rows, cols);
  try {
    if (type == ElementType::f32)
      array.storage_ = std::make_unique_for_overwrite<float[]>(rows * cols);
    else if (type == ElementType::f64)
      array.storage_ = std::make_unique_for_overwrite<double[]>(rows * cols);
    else
      throw std::logic_error("Array holds f32 or f64");
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(fmt::format("{}: {} bytes of memory are not to be had", what, bytes));
  }
  return array;
}

Array Array::view(MappedFile file, ElementType type, std::size_t rows, std::size_t cols,
                  std::size_t offset) {
  Array array(type, rows, cols);
  array.storage_ = Mapped{std::move(file), offset};
  return array;
}

std::span<const std::byte> Array::bytes() const {
  const std::size_t bytes = size() * size_of(type_);
  if (const auto* mapped = std::get_if<Mapped>(&storage_))
    return mapped->file.bytes().subspan(mapped->offset, bytes);
  if (const auto* floats = std::get_if<std::unique_ptr<float[]>>(&storage_))
    return std::as_bytes(std::span(floats->get(), size()));
  return std::as_bytes(std::span(std::get<std::unique_ptr<double[]>>(storage_).get(), size()));
}

std::span<const float> Array::f32() const {
  if (type_ != ElementType::f32)
    throw std::logic_error("Array::f32() of an f64 array");
  return {reinterpret_cast<const float*>(bytes().data()), size()};
}

std::span<const double> Array::f64() const {
  if (type_ != ElementType::f64)
    throw std::logic_error("Array::f64() of an f32 array");
  return {reinterpret_cast<const double*>(bytes().data()), size()};
}

std::span<float> Array::writable_f32() {
  const auto* floats = std::get_if<std::unique_ptr<float[]>>(&storage_);
  if (type_ != ElementType::f32 || floats == nullptr)
    throw std::logic_error("Array::writable_f32() of an f64 or mapped array");
  return {floats->get(), size()};
}

std::span<double> Array::writable_f64() {
  const auto* doubles = std::get_if<std::unique_ptr<double[]>>(&storage_);
  if (type_ != ElementType::f64 || doubles == nullptr)
    throw std::logic_error("Array::writable_f64() of an f32 or mapped array");
  return {doubles->get(), size()};
}

template <class T>
void check_points(std::span<const T> values, std::size_t cols, std::string_view what) {
  if (cols == 0)
    throw InputError(fmt::format("{}: no dimensions: d = 0", what));
  if (values.empty())
    throw InputError(fmt::format("{}: no points: n = 0", what));
  const std::size_t bad =
      first_index_where(values.size(), [&](std::size_t i) { return !std::isfinite(values[i]); });
  if (bad < values.size())
    throw InputError(fmt::format("{}: {} at row {}, column {} (both from 0)", what, values[bad],
                                 bad / cols, bad % cols));
}

template void check_points(std::span<const float>, std::size_t, std::string_view);
template void check_points(std::span<const double>, std::size_t, std::string_view);

void check_points(const Array& points, std::string_view what) {
  if (points.rows() == 0)
    throw InputError(fmt::format("{}: no points: n = 0", what));
  if (points.type() == ElementType::f32)
    check_points(points.f32(), points.cols(), what);
  else
    check_points(points.f64(), points.cols(), what);
}

} // namespace clusterbench::datasets

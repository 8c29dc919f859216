#include "datasets/npy.hpp"

#include "datasets/errors.hpp"
#include "datasets/output_file.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace clusterbench::datasets {
namespace {

static_assert(std::endian::native == std::endian::little, "byte order is assumed throughout");

/// float16 as it is stored; C++20 has no type for it.
struct Half {
  std::uint16_t bits;
};

float value_of(Half half) {
  const int exponent = half.bits >> 10 & 0x1f;
  const int fraction = half.bits & 0x3ff;
  float size = 0;
  if (exponent == 0x1f)
    size = fraction == 0 ? std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0) // subnormal, or zero
    size = std::ldexp(static_cast<float>(fraction), -24);
  else
    size = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
  return (half.bits & 0x8000) != 0 ? -size : size;
}

template <class T>
requires std::is_arithmetic_v<T> T value_of(T value) {
  return value;
}

template <class T>
T element(const std::byte* at, bool big_endian) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, at, sizeof(T));
  if (big_endian)
    std::reverse(std::begin(bytes), std::end(bytes));
  return std::bit_cast<T>(bytes);
}

/// Whether float64 holds this whole number as it is: those up to 2^53 in size, and some beyond.
template <std::integral T>
bool is_exact(T value) {
  constexpr auto kLimit = static_cast<double>(std::numeric_limits<T>::max()); // a power of two
  const auto rounded = static_cast<double>(value);
  return sizeof(T) < 8 || (rounded < kLimit && static_cast<T>(rounded) == value);
}

/// Elements of type `Stored` to numbers of type T, which holds each of them exactly.
template <class Stored, class T>
void decode(const NpyHeader& header, const std::byte* data, std::span<T> out,
            std::string_view name) {
  const std::size_t rows = header.rows;
  const std::size_t cols = header.cols;
  const auto take = [&](std::size_t at, std::size_t row, std::size_t col) {
    const auto value = element<Stored>(data + at * sizeof(Stored), header.big_endian);
    if constexpr (std::is_integral_v<Stored>)
      if (!is_exact(value))
        throw InputError(fmt::format("{}: row {}, column {} (both from 0): {} is a whole number "
                                     "that float64 does not hold exactly",
                                     name, row, col, value));
    out[row * cols + col] = static_cast<T>(value_of(value));
  };
  if (!header.fortran_order) {
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t col = 0; col < cols; ++col)
        take(row * cols + col, row, col);
    return;
  }
  // Bands of rows, so that the cache lines written stay in cache from one column to the next.
  constexpr std::size_t kBand = 64;
  for (std::size_t first = 0; first < rows; first += kBand)
    for (std::size_t col = 0; col < cols; ++col)
      for (std::size_t row = first; row < std::min(rows, first + kBand); ++row)
        take(col * rows + row, row, col);
}

} // namespace

Array decode_npy(const NpyHeader& header, std::span<const std::byte> file, std::string_view name) {
  Array array = Array::allocate(points_type(header.type), header.rows, header.cols, name);
  const auto run = [&]<class Stored>(Stored /*of this type*/) {
    const std::byte* const data = file.data() + header.offset;
    if (array.type() == ElementType::f32)
      decode<Stored>(header, data, array.writable_f32(), name);
    else
      decode<Stored>(header, data, array.writable_f64(), name);
  };
  switch (header.type) {
  case NpyType::f16:
    run(Half{});
    break;
  case NpyType::f32:
    run(float{});
    break;
  case NpyType::f64:
    run(double{});
    break;
  case NpyType::i8:
    run(std::int8_t{});
    break;
  case NpyType::i16:
    run(std::int16_t{});
    break;
  case NpyType::i32:
    run(std::int32_t{});
    break;
  case NpyType::i64:
    run(std::int64_t{});
    break;
  case NpyType::boolean: // a byte that is 0 or 1
  case NpyType::u8:
    run(std::uint8_t{});
    break;
  case NpyType::u16:
    run(std::uint16_t{});
    break;
  case NpyType::u32:
    run(std::uint32_t{});
    break;
  case NpyType::u64:
    run(std::uint64_t{});
    break;
  }
  return array;
}

Array read_npy(const std::filesystem::path& path) {
  MappedFile file(path);
  const NpyHeader header = parse_npy_header(file.bytes(), path.string());
  // NumPy aligns the data to 64 bytes; other writers may not, and then a view would be misaligned.
  const bool aligned = header.offset % size_of(header.type) == 0;
  const bool one_column = header.rows <= 1 || header.cols <= 1; // then both orders are the same
  const bool is_stored_so = header.type == NpyType::f32 || header.type == NpyType::f64;
  if (is_stored_so && (!header.fortran_order || one_column) && !header.big_endian && aligned)
    return Array::view(std::move(file), points_type(header.type), header.rows, header.cols,
                       header.offset);
  return decode_npy(header, file.bytes(), path.string());
}

std::string npy_head(ElementType type, std::span<const std::size_t> shape) {
  const bool is_real = type == ElementType::f32 || type == ElementType::f64;
  std::string header = fmt::format("{{'descr': '<{}{}', 'fortran_order': False, 'shape': {}, }}",
                                   is_real ? 'f' : 'i', size_of(type), npy_shape_text(shape));
  const std::size_t before = kNpyMagic.size() + 4;                       // magic, version, length
  const std::size_t total = (before + header.size() + 1 + 63) / 64 * 64; // data aligned to 64 bytes
  header.resize(total - before - 1, ' ');
  header += '\n';
  std::string head(kNpyMagic);
  head += '\x01';
  head += '\x00';
  head += static_cast<char>(header.size() & 0xff);
  head += static_cast<char>(header.size() >> 8);
  return head + header;
}

template <class T>
void write_npy(const std::filesystem::path& path, std::span<const T> values,
               const std::vector<std::size_t>& shape) {
  if (std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()) !=
      values.size())
    throw std::invalid_argument(fmt::format("write_npy: {} values do not fill shape {}",
                                            values.size(), npy_shape_text(shape)));
  constexpr ElementType type = std::is_same_v<T, float>    ? ElementType::f32
                               : std::is_same_v<T, double> ? ElementType::f64
                               : sizeof(T) == 4            ? ElementType::i32
                                                           : ElementType::i64;
  const std::string head = npy_head(type, shape);
  OutputFile file(path);
  file.write(std::as_bytes(std::span(head)));
  file.write(std::as_bytes(values));
  file.commit();
}

template void write_npy(const std::filesystem::path&, std::span<const float>,
                        const std::vector<std::size_t>&);
template void write_npy(const std::filesystem::path&, std::span<const double>,
                        const std::vector<std::size_t>&);
template void write_npy(const std::filesystem::path&, std::span<const std::int32_t>,
                        const std::vector<std::size_t>&);
template void write_npy(const std::filesystem::path&, std::span<const std::int64_t>,
                        const std::vector<std::size_t>&);

} // namespace clusterbench::datasets

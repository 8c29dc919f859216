#include "datasets/bin.hpp"

#include "datasets/errors.hpp"

#include <cstdint>
#include <cstring>
#include <fmt/core.h>
#include <utility>

namespace clusterbench::datasets {

BinShape bin_shape(std::span<const std::byte> file, BinElement element, std::string_view name) {
  if (file.size() < kBinHeader)
    throw InputError(fmt::format("{}: truncated: a header of {} bytes expected, {} found", name,
                                 kBinHeader, file.size()));
  std::uint32_t size[2];
  std::memcpy(size, file.data(), sizeof size);
  // Neither product overflows: 2^32 * 2^32 * 4 would, but then the file is shorter than 2^64 bytes.
  const BinShape found{size[0], size[1]};
  const std::size_t most = (SIZE_MAX - kBinHeader) / size_of(element);
  const bool fits = found.cols == 0 || found.rows <= most / found.cols;
  const std::size_t expected =
      fits ? kBinHeader + found.rows * found.cols * size_of(element) : SIZE_MAX;
  if (file.size() != expected)
    throw InputError(fmt::format("{}: the header says {} x {}, which is {} bytes in all; {} found",
                                 name, found.rows, found.cols, expected, file.size()));
  return found;
}

std::size_t size_of(BinElement element) {
  return element == BinElement::f32 ? sizeof(float) : 1;
}

Array parse_bin(std::span<const std::byte> file, BinElement element, std::string_view name) {
  const BinShape size = bin_shape(file, element, name);
  Array array = Array::allocate(ElementType::f32, size.rows, size.cols, name);
  float* const out = array.writable_f32().data();
  const std::byte* const data = file.data() + kBinHeader;
  const std::size_t count = size.rows * size.cols;
  switch (element) {
  case BinElement::f32:
    if (count > 0)
      std::memcpy(out, data, count * sizeof(float));
    break;
  case BinElement::u8:
    for (std::size_t i = 0; i < count; ++i)
      out[i] = std::to_integer<std::uint8_t>(data[i]);
    break;
  case BinElement::i8:
    for (std::size_t i = 0; i < count; ++i)
      out[i] = static_cast<std::int8_t>(std::to_integer<std::uint8_t>(data[i]));
    break;
  }
  return array;
}

Array read_bin(const std::filesystem::path& path, BinElement element) {
  MappedFile file(path);
  if (element != BinElement::f32)
    return parse_bin(file.bytes(), element, path.string());
  const BinShape size = bin_shape(file.bytes(), element, path.string());
  return Array::view(std::move(file), ElementType::f32, size.rows, size.cols, kBinHeader);
}

} // namespace clusterbench::datasets

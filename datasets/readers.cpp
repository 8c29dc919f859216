#include "datasets/readers.hpp"

#include "datasets/errors.hpp"
#include "datasets/npy.hpp"

#include <cstring>
#include <fmt/core.h>
#include <string>

namespace clusterbench::datasets {

bool is_readable_extension(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".npy" || extension == ".csv" || extension == ".fvecs" ||
         extension == ".bvecs";
}

Array read_file(const std::filesystem::path& path, ReadOptions options) {
  const std::string extension = path.extension().string();
  if (!is_readable_extension(path))
    throw InputError(
        fmt::format("{}: the extension must be .npy, .csv, .fvecs or .bvecs", path.string()));
  if (options.last_column_is_label && extension != ".csv")
    throw InputError(fmt::format("{}: only a .csv has a label column", path.string()));
  if (extension == ".npy")
    return read_npy(path);
  const MappedFile file(path);
  if (extension == ".csv")
    return parse_csv(file.text(), path.string(), options);
  return parse_vecs(file.bytes(), extension == ".fvecs" ? ElementType::f32 : ElementType::u8,
                    path.string());
}

Array parse_vecs(std::span<const std::byte> file, ElementType element, std::string_view name) {
  if (file.empty())
    return Array::allocate(ElementType::f32, 0, 0, name);
  const auto dimension_at = [&](std::size_t offset) {
    std::int32_t dimension = 0;
    std::memcpy(&dimension, file.data() + offset, sizeof dimension);
    return dimension;
  };
  if (file.size() < 4)
    throw InputError(fmt::format("{}: truncated: 4 bytes expected, {} found", name, file.size()));
  const std::int32_t first = dimension_at(0);
  if (first <= 0)
    throw InputError(fmt::format("{}: vector 0 has dimension {}", name, first));
  const auto d = static_cast<std::size_t>(first);
  const std::size_t record = 4 + d * size_of(element);
  const std::size_t rows = file.size() / record;
  if (file.size() % record != 0)
    throw InputError(fmt::format("{}: truncated, or a vector of another dimension than {}: {} "
                                 "bytes expected for {} vectors, {} found",
                                 name, d, (rows + 1) * record, rows + 1, file.size()));
  Array array = Array::allocate(ElementType::f32, rows, d, name);
  float* out = array.writable_f32().data();
  for (std::size_t i = 0; i < rows; ++i, out += d) {
    const std::size_t offset = i * record;
    if (dimension_at(offset) != first)
      throw InputError(fmt::format("{}: vector {} has dimension {}, the first has {}", name, i,
                                   dimension_at(offset), d));
    const std::byte* data = file.data() + offset + 4;
    if (element == ElementType::f32)
      std::memcpy(out, data, d * sizeof(float));
    else
      for (std::size_t j = 0; j < d; ++j)
        out[j] = std::to_integer<std::uint8_t>(data[j]);
  }
  return array;
}

} // namespace clusterbench::datasets

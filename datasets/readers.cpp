#include "datasets/readers.hpp"

#include "datasets/bin.hpp"
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"

#include <cstring>
#include <fmt/core.h>
#include <optional>
#include <string>

namespace clusterbench::datasets {

namespace {

// Other systems write names in capitals.
std::string small_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return extension;
}

bool is_hdf5(std::string_view extension) {
  return extension == ".hdf5" || extension == ".h5";
}
bool is_arrow(std::string_view extension) {
  return extension == ".parquet" || extension == ".arrow" || extension == ".feather";
}

/// FILE.hdf5#NAME names a table in the file, FILE.parquet#NAME columns; of other files a # is part
/// of the name.
struct FileAndTable {
  std::filesystem::path file;
  std::string table;
};

FileAndTable split(const std::filesystem::path& path) {
  const std::string text = path.string();
  if (const std::size_t mark = text.find('#'); mark != std::string::npos) {
    const std::filesystem::path file = text.substr(0, mark);
    if (const std::string extension = small_extension(file);
        is_hdf5(extension) || is_arrow(extension))
      return {file, text.substr(mark + 1)};
  }
  return {path, ""};
}

std::optional<BinElement> bin_element(std::string_view extension) {
  return extension == ".fbin"    ? std::optional(BinElement::f32)
         : extension == ".u8bin" ? std::optional(BinElement::u8)
         : extension == ".i8bin" ? std::optional(BinElement::i8)
                                 : std::nullopt;
}

} // namespace

bool is_readable_extension(const std::filesystem::path& path) {
  const std::string extension = small_extension(split(path).file);
  return extension == ".npy" || extension == ".csv" || extension == ".fvecs" ||
         extension == ".bvecs" || is_hdf5(extension) || is_arrow(extension) ||
         bin_element(extension).has_value();
}

Array read_file(const std::filesystem::path& path, ReadOptions options) {
  const auto [file_path, table] = split(path);
  const std::string extension = small_extension(file_path);
  if (!is_readable_extension(path))
    throw InputError(fmt::format(
        "{}: the extension must be .npy, .csv, .fvecs, .bvecs, .fbin, .u8bin, .i8bin, .hdf5, .h5, "
        ".parquet, .arrow or .feather",
        path.string()));
  if (options.last_column_is_label && extension != ".csv")
    throw InputError(fmt::format("{}: only a .csv has a label column", path.string()));
  if (extension == ".npy")
    return read_npy(path);
  if (is_hdf5(extension))
    return read_hdf5(file_path, table);
  if (is_arrow(extension))
    return read_arrow(file_path, table);
  if (const auto element = bin_element(extension))
    return read_bin(path, *element);
  const MappedFile file(path);
  if (extension == ".csv")
    return parse_csv(file.text(), path.string(), options);
  return parse_vecs(file.bytes(), extension == ".fvecs" ? ElementType::f32 : ElementType::u8,
                    path.string());
}

std::string place_in_file(const std::filesystem::path& path, std::size_t row) {
  if (small_extension(path) != ".csv")
    return fmt::format("row {} (from 0)", row);
  const MappedFile file(path);
  return fmt::format("line {}", csv_line_of_row(file.text(), path.string(), row));
}

std::string conversion_of(const std::filesystem::path& path) {
  const std::string extension = small_extension(path);
  if (extension == ".bvecs" || extension == ".u8bin")
    return "u8 to f32";
  if (extension == ".i8bin")
    return "i8 to f32";
  if (extension != ".npy")
    return "";
  const MappedFile file(path);
  const NpyType type = parse_npy_header(file.bytes(), path.string()).type;
  const std::string_view stored = name_of(type);
  const std::string_view read = name_of(points_type(type));
  return stored == read ? "" : fmt::format("{} to {}", stored, read);
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

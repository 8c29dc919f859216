// NumPy's .npy files: format versions 1 to 3 in, version 1 out.
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "datasets/array.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace clusterbench::datasets {

/// What a .npy header says of the points behind it.
struct NpyHeader {
  ElementType type;       // f32 or f64
  bool big_endian;        //
  bool fortran_order;     // column-major
  std::size_t rows, cols; // a 1-D array of n is [n, 1]
  std::size_t offset;     // of the first element, in bytes
};

/// Parses the header of `file`, the whole content of a .npy file called `name`.
/// Throws InputError for a wrong format, dtype or shape, or when the file's size is not exactly
/// what the header promises.
NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name);

/// Copies the points out of `file`, in native C order. Throws InputError (more than memory).
Array decode_npy(const NpyHeader& header, std::span<const std::byte> file, std::string_view name);

/// Reads points [n, d], or [n] as [n, 1], of f4 or f8 in either byte order and either array order.
/// Native C-order files are mapped, not copied. Throws InputError.
Array read_npy(const std::filesystem::path& path);

/// Writes `values`, row-major, as an array of `shape`; the file appears whole or not at all.
/// T is float, double, std::int32_t or std::int64_t. Throws OutputError, and
/// std::invalid_argument when the shape does not fit the number of values.
template <class T>
void write_npy(const std::filesystem::path& path, std::span<const T> values,
               const std::vector<std::size_t>& shape);

} // namespace clusterbench::datasets

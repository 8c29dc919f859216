// NumPy's .npy files: format versions 1 to 3 in, version 1 out.
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "datasets/array.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench::datasets {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// What the elements of a file are.
enum class NpyType { f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

/// Bytes per element.
std::size_t size_of(NpyType type);

/// "f16", "i8", ..., "bool".
std::string_view name_of(NpyType type);

/// f32 for elements of at most 16 bits and for float32, which it holds exactly; f64 for others.
ElementType points_type(NpyType type);

/// What a .npy header says of the points behind it.
struct NpyHeader {
  NpyType type;
  bool big_endian;        //
  bool fortran_order;     // column-major
  std::size_t rows, cols; // a 1-D array of n is [n, 1]
  std::size_t offset;     // of the first element, in bytes
};

/// Parses the header of `file`, the whole content of a .npy file called `name`.
/// Throws InputError for a wrong format, dtype or shape, or when the file's size is not exactly
/// what the header promises.
NpyHeader parse_npy_header(std::span<const std::byte> file, std::string_view name);

/// A shape as Python writes it: "(3, 2)", "(3,)".
std::string npy_shape_text(std::span<const std::size_t> shape);

/// The first bytes of a file of `shape`, up to its first value. type: f32, f64, i32 or i64.
std::string npy_head(ElementType type, std::span<const std::size_t> shape);

/// Copies the points out of `file`, in native C order, as points_type() of what they are. Throws
/// InputError for more than memory, and for a whole number that float64 does not hold exactly.
Array decode_npy(const NpyHeader& header, std::span<const std::byte> file, std::string_view name);

/// Reads points [n, d], or [n] as [n, 1], of any NpyType in either byte order and array order.
/// Native C-order files of f32 and f64 are mapped, not copied. Throws InputError.
Array read_npy(const std::filesystem::path& path);

/// Writes `values`, row-major, as an array of `shape`; the file appears whole or not at all.
/// T is float, double, std::int32_t or std::int64_t. Throws OutputError, and
/// std::invalid_argument when the shape does not fit the number of values.
template <class T>
void write_npy(const std::filesystem::path& path, std::span<const T> values,
               const std::vector<std::size_t>& shape);

} // namespace clusterbench::datasets

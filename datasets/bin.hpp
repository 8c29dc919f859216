// The binary files of the big-ann benchmarks: .fbin, .u8bin and .i8bin.
#pragma once

#include "datasets/array.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace clusterbench::datasets {

enum class BinElement { f32, u8, i8 };

/// Bytes per element.
std::size_t size_of(BinElement element);

inline constexpr std::size_t kBinHeader = 8; ///< bytes before the first element

struct BinShape {
  std::size_t rows, cols;
};

/// What the header says, which the file's size must bear out. Throws InputError.
BinShape bin_shape(std::span<const std::byte> file, BinElement element, std::string_view name);

/// Parses rows and columns, 32 bits without sign each, and then the numbers, row-major and
/// little-endian. Bytes are widened to f32. Throws InputError naming what was expected and what was
/// found.
/// Source: https://big-ann-benchmarks.com.
Array parse_bin(std::span<const std::byte> file, BinElement element, std::string_view name);

/// The same of a file; one of f32 stays where it is, mapped.
Array read_bin(const std::filesystem::path& path, BinElement element);

} // namespace clusterbench::datasets

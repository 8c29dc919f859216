// A user's own data, read by the file's extension.
#pragma once

#include "datasets/array.hpp"

#include <filesystem>
#include <string_view>

namespace clusterbench::datasets {

struct ReadOptions {
  bool last_column_is_label = false; // .csv only: the last column becomes Array::labels
};

/// Reads points from .npy, .csv, .fvecs (f32) or .bvecs (bytes, widened to f32).
/// Throws InputError naming the file and the place in it.
Array read_file(const std::filesystem::path& path, ReadOptions options = {});

/// Whether read_file knows the extension of `path`.
bool is_readable_extension(const std::filesystem::path& path);

/// Parses comma-, semicolon-, tab-, bar- or blank-separated numbers, one point a line, into f64.
/// Blank lines and lines that begin with '#' are skipped, and so is a first line without a number,
/// the header. Labels may be whole numbers or words; words are numbered as they first appear.
/// Works on all cores. Throws InputError naming line and column, both from 1.
Array parse_csv(std::string_view text, std::string_view name, ReadOptions options = {});

/// Parses .fvecs or .bvecs: each vector is its dimension as int32, then its elements.
/// Source: http://corpus-texmex.irisa.fr. Throws InputError.
Array parse_vecs(std::span<const std::byte> file, ElementType element, std::string_view name);

} // namespace clusterbench::datasets

// A user's own data, read by the file's extension.
#pragma once

#include "datasets/array.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace clusterbench::datasets {

struct ReadOptions {
  bool last_column_is_label = false; // .csv only: the last column becomes Array::labels
};

/// Reads points from .npy, .csv, .fvecs and .fbin (f32), .bvecs, .u8bin and .i8bin (bytes, widened
/// to f32), .hdf5 and .h5 (see read_hdf5(); FILE.hdf5#NAME names a table), or .parquet, .arrow and
/// .feather (see read_arrow(); FILE.parquet#A,B names columns); the extension may be in capitals.
/// Throws InputError naming the file and the place in it.
Array read_file(const std::filesystem::path& path, ReadOptions options = {});

/// Where row `row` (from 0) of such a file is, for a message: "line 7" of a .csv (from 1), "row 5
/// (from 0)" of others.
std::string place_in_file(const std::filesystem::path& path, std::size_t row);

/// Whether read_file knows the extension of `path`.
bool is_readable_extension(const std::filesystem::path& path);

/// How reading changes the type of a file's numbers: "u8 to f32", "f16 to f32", ...; empty where it
/// does not, and for text, HDF5, Parquet and Arrow. Throws InputError.
std::string conversion_of(const std::filesystem::path& path);

/// Reads one table of numbers, [n, d] or [n], of an HDF5 file, by a Python that has h5py. An empty
/// name stands for `train`, as ann-benchmarks calls its points, or for the only table of two
/// dimensions. Throws InputError, also where no Python has h5py.
Array read_hdf5(const std::filesystem::path& path, const std::string& table);

/// Reads columns of numbers, or of lists of numbers, of a Parquet or Arrow file, by a Python that
/// has pyarrow. `columns` are names with commas between them; empty: all. Throws InputError, also
/// where no Python has pyarrow.
Array read_arrow(const std::filesystem::path& path, const std::string& columns);

/// Parses comma-, semicolon-, tab-, bar- or blank-separated numbers, one point a line, into f64.
/// Blank lines and lines that begin with '#' are skipped, and so is a first line without a number,
/// the header. Lines end with LF, CRLF or, where there is no LF, with CR. Fields may stand in
/// double quotes. Last columns that are empty in every row are none. Labels may be whole numbers or
/// words; words are numbered as they first appear. A NUL byte and UTF-16 are refused. Works on all
/// cores. Throws InputError naming line and column, both from 1.
Array parse_csv(std::string_view text, std::string_view name, ReadOptions options = {});

/// The line, from 1, on which row `row` (from 0) of such a text stands.
std::size_t csv_line_of_row(std::string_view text, std::string_view name, std::size_t row);

/// Parses .fvecs or .bvecs: each vector is its dimension as int32, then its elements.
/// Source: http://corpus-texmex.irisa.fr. Throws InputError.
Array parse_vecs(std::span<const std::byte> file, ElementType element, std::string_view name);

} // namespace clusterbench::datasets

// Datasets by name: found in the catalogue, made on first use, kept in a cache.
//
// A cached dataset is a .npy under cache_directory(), named after the hash of its recipe and of
// kGeneratorVersion, with a .json beside it that holds its shape and SHA-256. A damaged, truncated
// or foreign file is noticed and made anew; processes may make the same one at the same time.
#pragma once

#include "datasets/array.hpp"
#include "datasets/readers.hpp"
#include "datasets/row_range.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench::datasets {

struct CatalogEntry {
  std::string name, description, source;
  std::size_t rows, cols; // 0 for the patterns, where the name says it
};

/// The fixed names, then the patterns `mixture:n,d,components,std,seed` and `uniform:n,d,seed`.
std::vector<CatalogEntry> catalog();

/// Whether `spec` is a fixed name or follows a pattern. Does not look at files.
bool is_known(std::string_view spec);

/// A dataset's recipe: its canonical name, and the generator and arguments for generate().
struct Recipe {
  std::string name;
  std::string generator;
  std::string arguments; // JSON, keys sorted
  std::size_t rows, cols;

  /// Whether its rows can be made alone.
  bool makes_rows_alone() const;
};

/// Parses a fixed name or a pattern; nothing when `spec` is neither.
/// Throws InputError when it follows a pattern but its numbers do not.
std::optional<Recipe> parse_spec(std::string_view spec);

/// Runs `generator` (make_classification, make_blobs, uniform, mixture, colour_moments) with the
/// named arguments, which are those of its options. Throws InputError for unknown or bad ones.
/// Of `rows` alone it gives the bits that they have in the whole; the first two refuse, as their
/// rows depend on all others.
Array generate(std::string_view generator, const nlohmann::json& arguments, RowRange rows = {});

/// Rows of a fixed name or a pattern, made alone: the whole is nowhere, the cache is left as it is.
/// Throws InputError, also for a name that is none.
Array generate_rows(std::string_view name, RowRange rows);

/// Whether `name` is one whose rows can be made alone: no file of a user, and none of
/// scikit-learn's generators.
bool makes_rows_alone(std::string_view name);

/// The same rows, one piece after the other: no more than most_bytes of them are in memory at a
/// time, or one row. `take` is given a piece and the number of its first row.
void generate_in_pieces(std::string_view name, RowRange rows, std::size_t most_bytes,
                        const std::function<void(const Array& piece, std::size_t first)>& take);

struct Resolved {
  std::string name;           // canonical spec, or the path as given
  std::filesystem::path file; // in the cache, or the user's own
  std::size_t rows, cols;
  ElementType type;
  std::string sha256; // of the raw points: row-major, little-endian, `type` each
};

/// Finds a dataset: a name or pattern, generated into the cache on first use, or a path to a user's
/// file, which is read, checked for NaN and Inf, and hashed. Names go before paths.
/// Throws InputError (an unknown name comes with the nearest known), OutputError (a cache that
/// cannot be written).
Resolved resolve(std::string_view name_or_path, ReadOptions options = {});

/// A file of points, and what they must hash to.
struct KeptFile {
  std::filesystem::path file;
  std::string sha256; // as Resolved has it; empty for a user's own file
};

/// Where a dataset's points are, without reading them: in the cache, or a user's own file. What is
/// not in the cache yet is written to it, with no more than most_bytes of it in memory at a time.
/// Throws InputError where rows cannot be made alone, and as resolve() for unknown names;
/// OutputError.
KeptFile kept_file(std::string_view name_or_path, std::size_t most_bytes);

/// The points; mapped from the cache where possible. Throws InputError.
Array load(const Resolved& resolved, ReadOptions options = {});

/// $CLUSTERBENCH_CACHE, else $XDG_CACHE_HOME/clusterbench, else ~/.cache/clusterbench; empty when
/// none of them is set.
std::filesystem::path cache_directory_or_none();

/// The same, but throws InputError when none of them is set.
std::filesystem::path cache_directory();

/// The candidate with the smallest edit distance to `word`; empty when there is no candidate.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

} // namespace clusterbench::datasets

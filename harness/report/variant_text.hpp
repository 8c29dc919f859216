// What can be read about a variant: its registration, if it is built here, and its source file.
#pragma once

#include "harness/ledger/measurements.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

struct VariantText {
  std::string name;
  std::string idea;                ///< one line
  std::string source;              ///< article and section, or paper; empty if unknown
  std::string previous;            ///< the variant that it improves on; empty: none
  std::string file;                ///< path within the source tree; empty if it was not found
  std::vector<std::string> header; ///< the comment that the file begins with, without its marks
  std::string code;                ///< the file's text after its header
};

/// The folder that holds impls/: `given`, or the nearest one above the program or above the working
/// folder. Empty if there is none; throws datasets::InputError if a given one is none.
std::filesystem::path find_source_tree(const std::filesystem::path& given);

/// Empty for a variant that is neither registered nor found in the source tree. sources: may be
/// empty.
std::optional<VariantText> find_variant_text(const std::string& name,
                                             const std::filesystem::path& sources);

/// Of all variants that the cells name and that are known, by name. source: see find_source_tree().
std::vector<VariantText> variant_texts(const Measurements& measurements, const std::string& source);

/// The same of one, where a variant that is not found is bad input: throws datasets::InputError
/// with the nearest name.
VariantText read_variant_text(const std::string& name, const std::filesystem::path& sources);

/// The difference of two texts as `diff -u` prints it, without its first two lines; empty if they
/// are equal. Throws std::runtime_error if the program diff cannot be run.
std::string unified_diff(const std::string& before, const std::string& after);

} // namespace clusterbench

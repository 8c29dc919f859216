// What `clusterbench quality` runs: variants x problems x initialisations x seeds.
#pragma once

#include "harness/problem/table.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

/// Name of the "table" that these cells carry in the ledger.
inline constexpr const char* kQualityTable = "quality";

/// "3" or "1..5", ends included. Throws datasets::InputError.
std::vector<std::uint64_t> parse_seeds(std::string_view text);

/// The k-means problems of a table, each data and k once; their initial states and stop rules are
/// the caller's to set. Throws datasets::InputError for a table without any.
std::vector<ProblemSpec> quality_problems(const Table& table);

struct QualityPlan {
  std::vector<ProblemSpec> problems; ///< data, take, k and stop rule; initial states are set here
  std::vector<std::string> inits;    ///< `random`, `kmeans++`
  std::vector<std::uint64_t> seeds;  ///< of every initialisation
  std::vector<std::string> variants; ///< shell globs; empty: every k-means variant that can run
  std::vector<Precision> precisions;
};

/// One cell for each variant and precision from each initial state of each problem. Throws
/// datasets::InputError for an unknown initialisation, a glob that names nothing, and a variant of
/// fuzzy c-means.
std::vector<CellSpec> quality_cells(const QualityPlan& plan);

} // namespace clusterbench

// Which cells of a problem did the same work, so that their times may be ranked.
#pragma once

#include "harness/report/measurements.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

/// Why a cell did other work than its table asks for.
struct OtherWork {
  std::string iterations;      ///< another number of them; a time per iteration is still comparable
  std::vector<std::string> no; ///< anything else: no time of this cell is comparable
  bool equal() const { return iterations.empty() && no.empty(); }
  std::vector<std::string> reasons() const;
};

/// What the ranked cells of one problem in one precision have in common.
struct CommonWork {
  nlohmann::json problem; ///< the table's own words, as to_json(ProblemSpec)
  nlohmann::json data_sha256, n, d, initial_rows; ///< of most cells; null if no cell was run
  std::size_t iterations = 0; ///< as the table asks, or of most cells where a rule decides
};

/// The work that most of the cells did. `problem` is the definition of the table.
CommonWork common_work(const nlohmann::json& problem, const std::vector<const Measured*>& cells);

/// How the work of a cell that is ok differs: data, initial state, stop rule, iterations, re-seeded
/// clusters, an early stop, a narrower arithmetic.
OtherWork other_work(const Measured& cell, const CommonWork& common);

} // namespace clusterbench

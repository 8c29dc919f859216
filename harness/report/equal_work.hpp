// Which cells of a problem did the same work, so that their times may be ranked.
#pragma once

#include "harness/ledger/measurements.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

/// Why a cell did other work than its table asks for.
struct OtherWork {
  /// Another number of them from the problem's own start. A time per iteration is still comparable.
  std::string iterations;
  std::vector<std::string> no; ///< anything else: no time of this cell is comparable
};

/// What the ranked cells of one problem in one precision have in common.
struct CommonWork {
  nlohmann::json problem; ///< the table's own words, as to_json(ProblemSpec)
  /// Of most cells; null if no cell was run.
  nlohmann::json data_sha256, weights_sha256, n, d, initial_rows;
  /// From the problem's own start: as the table asks, or of most cells where a rule decides.
  double iterations = 0.0;
};

/// The work that most of the cells did. `problem` is the definition of the table.
CommonWork common_work(const nlohmann::json& problem, const std::vector<const Measured*>& cells);

/// How the work of a cell that is ok differs: data, initial state, stop rule, iterations, re-seeded
/// clusters, an early stop, a narrower arithmetic, no sandbox.
OtherWork other_work(const Measured& cell, const CommonWork& common);

} // namespace clusterbench

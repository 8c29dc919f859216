// What ledgers tell of each variant from each initial state: times, and the inertia of every pass.
#pragma once

#include "harness/ledger/measurements.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// What is to be solved: data with their weights, k and the rule that ends a run.
struct QualityProblem {
  std::string data; ///< named as in the ledger
  std::size_t n = 0, d = 0, k = 0;
  std::string stop;
  std::size_t max_iterations = 0;
  std::string data_sha256, weights_sha256;
  auto operator<=>(const QualityProblem&) const = default;
};

/// What solves it.
struct Solver {
  std::string variant, precision;
  int threads = 0;
  int gpus = 0, ranks = 0; ///< 0: one, or none
  auto operator<=>(const Solver&) const = default;
};

/// An initial state: the initialisation without its seed, and the seed. Only `random` and
/// `kmeans++` have seeds that are repetitions of one another.
struct StartState {
  std::string init;
  std::uint64_t seed = 0;
  std::string text; ///< as the ledger has it, such as `random:3`
  auto operator<=>(const StartState&) const = default;
};

StartState start_state(const std::string& text);

/// One solver from one initial state of one problem.
struct Attempt {
  std::size_t problem = 0; ///< index into Attempts::problems
  std::size_t solver = 0;  ///< index into Attempts::solvers
  StartState start;
  std::string status, message; ///< as in the ledger; only `ok` has what follows
  double around_ms = 0.0; ///< upload, prepare and download of a whole answer; median over rounds
  double run_ms = 0.0;    ///< the whole run from this start; median over rounds
  /// [passes executed] of the centroids that each pass returned, in float64 by the harness; NaN
  /// where it is not known.
  std::vector<double> inertia;
  bool recorded = false; ///< every pass is known; otherwise at most the last

  bool ok() const { return status == "ok"; }
};

struct Attempts {
  std::vector<QualityProblem> problems; ///< sorted
  std::vector<Solver> solvers;          ///< sorted; those that this machine could run at all
  std::vector<Attempt> attempts;        ///< sorted by problem, start, solver
  std::vector<std::string> notes;       ///< what was left out, and why
};

/// The k-means cells among `measurements`, of the variants that match one of the shell globs `only`
/// (empty: all). Where a ledger has a cell twice the later one counts. Throws datasets::InputError
/// if nothing is left.
Attempts make_attempts(const Measurements& measurements, const std::vector<std::string>& only);

} // namespace clusterbench

// The float64 oracle: plain Lloyd and plain fuzzy c-means that every variant is judged against.
//
// Sums over points are compensated, and they run over fixed chunks of rows that are combined in
// order, so that the answer does not depend on the number of threads.
#pragma once

#include "harness/judge/interruption.hpp"
#include "harness/judge/oracle_states.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <vector>

namespace clusterbench {

/// What the float64 run of a problem looked like. Passes are counted from 1.
///
/// A run that reaches a state it was in before repeats itself for ever: its passes are counted to
/// the end, and computed only once. One that stands still repeats its last pass.
struct OracleRun {
  std::size_t iterations = 0; ///< executed passes; 0 if the budget was too small for one
  bool complete = true;       ///< ended by the stop rule and not by the budget
  std::size_t repeats = 0;    ///< passes beyond the computed ones repeat so many of those; 0: none

  /// The initial state, the last two, and as many between as memory allows. FCM from memberships
  /// has no initial centres: there the first state repeats that of pass 1.
  std::vector<OracleState> states;

  std::vector<double> loss; ///< one per computed pass, as PassFacts::loss defines it
  /// k-means: sum of squared distances to the entering centroids, each times the point's weight.
  std::vector<double> inertia;

  /// Objective of the returned centroids: for k-means the sum of squared distances to the nearest,
  /// for FCM sum(u^m * distance^2) with the memberships that follow from them.
  double final_objective = 0.0;

  bool still_moving = true;       ///< the last pass changed a label (k-means) or a centre (FCM)
  std::size_t stood_still_at = 0; ///< the first pass that moved nothing; 0: none
  std::size_t empty_at = 0;       ///< the first pass with an empty cluster; 0: none

  /// Whether an answer after so many passes can be compared with this run.
  bool reaches(std::size_t passes) const { return complete || passes <= iterations; }
  double loss_of(std::size_t pass) const { return loss[computed(pass) - 1]; }
  double inertia_of(std::size_t pass) const { return inertia[computed(pass) - 1]; }
  /// Of the centroids after so many passes, at most `iterations`: as final_objective.
  double objective_after(std::size_t passes, bool from_memberships) const {
    return from_memberships       ? loss_of(passes)
           : passes == iterations ? final_objective
           : inertia.empty()      ? loss_of(passes + 1)
                                  : inertia_of(passes + 1);
  }
  const std::vector<double>& returned() const { return states.back().centroids; }

private:
  /// The computed pass that stands for this one.
  std::size_t computed(std::size_t pass) const {
    return pass <= loss.size() ? pass
                               : loss.size() - repeats + 1 + (pass - loss.size() - 1) % repeats;
  }
};

/// Of the whole run that a campaign asks for.
inline constexpr double kOracleBudget = 4e11;

struct OracleOptions {
  /// Operations of all passes, one being a multiply or an add of a distance. A run that takes more
  /// is cut short, and not `complete`.
  double budget = kOracleBudget;
  /// Ends the run with Interrupted, within a second.
  InterruptTest interrupted = {};
};

/// How many passes the budget allows, at most as many as the stop rule does.
template <typename T>
std::size_t affordable_passes(const Problem<T>& problem, double budget);

/// Runs the family's algorithm on `problem` until its stop rule is met, in float64.
/// Throws std::invalid_argument if the shapes do not fit together, and Interrupted.
template <typename T>
OracleRun run_oracle(Family family, const Problem<T>& problem, const OracleOptions& options = {});

/// Whether `run` has the form of a run of this problem.
template <typename T>
bool fits(const OracleRun& run, Family family, const Problem<T>& problem);

} // namespace clusterbench

// The oracle's runs that a campaign has needed so far, in memory and on disk.
#pragma once

#include "harness/judge/oracle.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/problem/problem.hpp"

#include <map>
#include <string>

namespace clusterbench {

/// Beyond so many operations the oracle does not repeat a run, and it is judged by itself. The
/// tests lower it.
double& oracle_budget();

/// Judging ends with a signal that asks the program to stop, and where the file of the points
/// changes: then it throws Interrupted.
VerifyOptions verify_options();
OracleOptions oracle_options(double share_of_budget = 1.0);

class Oracles {
public:
  /// The run of the problem, cut short where it takes more than that share of the budget. The
  /// reference stays valid. points_key: of the problem's points. Throws Interrupted.
  template <typename T>
  const OracleRun& of(Family family, const Problem<T>& problem, const std::string& points_key,
                      double share_of_budget);

private:
  std::map<std::string, OracleRun> runs_; ///< by problem_key() and share
};

} // namespace clusterbench

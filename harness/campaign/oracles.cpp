#include "harness/campaign/oracles.hpp"

#include "datasets/file_in_place.hpp"
#include "harness/judge/oracle_cache.hpp"
#include "harness/problem/problem_key.hpp"
#include "harness/system/process.hpp"

#include <fmt/format.h>

namespace clusterbench {
namespace {

// Also where the points can no longer be read: whoever catches Interrupted asks why.
bool is_interrupted() {
  return interrupt_signal() != 0 || !datasets::mapped_file_is_intact();
}

} // namespace

double& oracle_budget() {
  static double budget = kOracleBudget;
  return budget;
}

VerifyOptions verify_options() {
  VerifyOptions options;
  options.interrupted = is_interrupted;
  return options;
}

OracleOptions oracle_options(double share_of_budget) {
  return {share_of_budget * oracle_budget(), is_interrupted};
}

template <typename T>
const OracleRun& Oracles::of(Family family, const Problem<T>& problem,
                             const std::string& points_key, double share_of_budget) {
  const OracleOptions options = oracle_options(share_of_budget);
  const std::string key = problem_key(family, problem, points_key);
  const std::string with_budget = fmt::format("{}-{:.3g}", key, options.budget);
  const auto known = runs_.find(with_budget);
  if (known != runs_.end()) {
    return known->second;
  }
  return runs_[with_budget] =
             cached_oracle_run(oracle_cache_folder(), key, family, problem, options);
}

template const OracleRun& Oracles::of(Family, const Problem<float>&, const std::string&, double);
template const OracleRun& Oracles::of(Family, const Problem<double>&, const std::string&, double);

} // namespace clusterbench

#include "harness/judge/same_check.hpp"

#include "harness/judge/answer_objective.hpp"
#include "harness/judge/rounding.hpp"

#include <fmt/format.h>

#include <cstring>
#include <span>

namespace clusterbench {
namespace {

template <typename Value>
std::optional<std::string> other_bits_in(std::span<const Value> recorded,
                                         std::span<const Value> timed, const char* what) {
  if (recorded.size() != timed.size()) {
    return fmt::format("{}: {} values, but the recorded run has {}", what, timed.size(),
                       recorded.size());
  }
  if (recorded.empty() || std::memcmp(recorded.data(), timed.data(), recorded.size_bytes()) == 0) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (std::memcmp(&recorded[i], &timed[i], sizeof(Value)) != 0) {
      return fmt::format("{}: value {} is {:.9g}, but {:.9g} in the recorded run", what, i,
                         static_cast<double>(timed[i]), static_cast<double>(recorded[i]));
    }
  }
  return std::nullopt;
}

} // namespace

template <typename T>
std::optional<std::string> other_bits(const JudgedAnswer<T>& recorded,
                                      const JudgedAnswer<T>& timed) {
  if (recorded.iterations != timed.iterations) {
    return fmt::format("{} iterations, but {} in the recorded run", timed.iterations,
                       recorded.iterations);
  }
  auto where = other_bits_in(recorded.labels, timed.labels, "labels");
  where = where ? where : other_bits_in(recorded.centroids, timed.centroids, "centroids");
  where = where ? where : other_bits_in(recorded.entering, timed.entering, "entering");
  return where ? where : other_bits_in(recorded.memberships, timed.memberships, "memberships");
}

template <typename T>
std::optional<std::string> other_objective(const Declaration& declared, const Problem<T>& problem,
                                           const JudgedAnswer<T>& recorded,
                                           const JudgedAnswer<T>& timed, Verdict& verdict) {
  const double expected = answer_objective(declared.family, problem, recorded);
  const double got = answer_objective(declared.family, problem, timed);
  verdict.objective = got;
  verdict.relative_difference = (got - expected) / (expected > 0.0 ? expected : 1.0);
  const double allowed =
      (objective_drift<T>(declared.arithmetic) + declared.approximate_within) * expected;
  const bool may_be_lower = timed.iterations > recorded.iterations;
  const bool may_be_higher = timed.iterations < recorded.iterations;
  if (problem.stop.kind == StopRule::Kind::iterations && timed.iterations != recorded.iterations) {
    return fmt::format("{} iterations, but {} in the recorded run", timed.iterations,
                       recorded.iterations);
  }
  if ((got - expected <= allowed || may_be_higher) && (expected - got <= allowed || may_be_lower)) {
    return std::nullopt;
  }
  return fmt::format("objective {:.12g} after iteration {}, but {:.12g} after {} in the recorded "
                     "run (allowed +-{:.3g})",
                     got, timed.iterations, expected, recorded.iterations, allowed);
}

template std::optional<std::string> other_bits(const JudgedAnswer<float>&,
                                               const JudgedAnswer<float>&);
template std::optional<std::string> other_bits(const JudgedAnswer<double>&,
                                               const JudgedAnswer<double>&);
template std::optional<std::string> other_objective(const Declaration&, const Problem<float>&,
                                                    const JudgedAnswer<float>&,
                                                    const JudgedAnswer<float>&, Verdict&);
template std::optional<std::string> other_objective(const Declaration&, const Problem<double>&,
                                                    const JudgedAnswer<double>&,
                                                    const JudgedAnswer<double>&, Verdict&);

} // namespace clusterbench

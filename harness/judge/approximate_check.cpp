#include "harness/judge/approximate_check.hpp"

#include "harness/judge/answer_objective.hpp"
#include "harness/judge/known_sets.hpp"
#include "harness/judge/label_check.hpp"
#include "harness/judge/membership_check.hpp"
#include "harness/judge/pass_view.hpp"
#include "harness/judge/rounding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace clusterbench {
namespace {

/// What a weighted sum of squares may be from coordinates that the data or the declared arithmetic
/// resolve no better, if it is 0 otherwise; its square root.
template <typename T>
double resolution(const Declaration& declared, const Problem<T>& problem,
                  const JudgedAnswer<T>& answer) {
  const double longest = longest_squared(answer.centroids, problem.d);
  return 4.0 * (unit_roundoff<T> + input_roundoff(declared.arithmetic)) *
         std::sqrt(problem.total_weight() * longest);
}

/// By how much moving the centroids to the means would lower the objective.
template <typename T>
std::optional<std::string> wrong_means(const Declaration& declared, const Problem<T>& problem,
                                       const JudgedAnswer<T>& answer, const MeansView& means) {
  double excess = 0.0;
  for (std::size_t i = 0; i < means.deviation.size(); ++i) {
    excess += means.weight[i / problem.d] * means.deviation[i] * means.deviation[i];
  }
  const double objective = answer_objective(declared.family, problem, answer);
  const double resolved = resolution(declared, problem, answer);
  const double allowed = declared.approximate_within * objective + resolved * resolved;
  return excess <= allowed
             ? std::nullopt
             : std::optional(fmt::format(
                   "cluster means would lower the objective {:.9g} by {:.3g} (allowed {:.3g})",
                   objective, excess, allowed));
}

template <typename T>
std::optional<std::string> worse_than_oracle(const Declaration& declared, const Problem<T>& problem,
                                             const JudgedAnswer<T>& answer,
                                             const Verdict& verdict) {
  const double expected = verdict.oracle_objective;
  const double resolved = resolution(declared, problem, answer);
  const double allowed =
      (declared.approximate_within + objective_drift<T>(declared.arithmetic)) * expected +
      2.0 * resolved * std::sqrt(expected) + resolved * resolved;
  return verdict.objective - expected <= allowed
             ? std::nullopt
             : std::optional(fmt::format(
                   "after iteration {}: got {:.12g}, expected {:.12g} (declared within +{:.3g})",
                   answer.iterations, verdict.objective, expected, allowed));
}

} // namespace

template <typename T>
void judge_approximate_step(const Declaration& declared, const Problem<T>& problem,
                            const JudgedAnswer<T>& answer, const PointSelection& points,
                            Report& report) {
  const bool fcm = declared.family == Family::fcm;
  const bool from_memberships = !problem.memberships.empty();
  const bool of_returned =
      fcm ? from_memberships : declared.labels == LabelsFrom::returned_centroids;
  const auto centroids = of_returned ? answer.centroids : known_entering(problem, answer);
  report.verdict.sampled = report.verdict.sampled || points.is_sample();
  if (!centroids.empty()) {
    report.verdict.labels_off = count_other_labels(problem, centroids, answer.labels, points);
    report.verdict.labels_judged = points.size();
  }
  if (fcm) {
    report("row sums",
           check_row_sums(problem, answer.memberships, declared.approximate_within).violation);
    const bool known = !from_memberships || answer.iterations == 1;
    if (known && !points.is_sample()) {
      const auto memberships = from_memberships ? problem.memberships : answer.memberships;
      report("centres", wrong_means(declared, problem, answer,
                                    view_means_of_memberships(declared, problem, memberships,
                                                              answer.centroids)));
    }
  } else if (!of_returned) {
    report("means",
           wrong_means(declared, problem, answer,
                       view_means_of_labels(declared, problem, answer.labels, answer.centroids)));
  }
}

template <typename T>
void judge_approximately(const Declaration& declared, const Problem<T>& problem,
                         const JudgedAnswer<T>& answer, const OracleRun* oracle,
                         const PointSelection& points, Report& report) {
  judge_approximate_step(declared, problem, answer, points, report);
  Verdict& verdict = report.verdict;
  if (problem.stop.kind == StopRule::Kind::iterations &&
      answer.iterations < problem.stop.max_iterations) {
    const auto entering = known_entering(problem, answer);
    verdict.early_stop = std::ranges::equal(entering, answer.centroids);
    report("stop rule",
           verdict.early_stop
               ? std::nullopt
               : std::optional(fmt::format("stopped after {} of {} iterations, of which the last "
                                           "still moved its centroids",
                                           answer.iterations, problem.stop.max_iterations)));
  }
  if (oracle != nullptr) {
    const std::size_t same = std::min(answer.iterations, oracle->iterations);
    verdict.objective = view_pass(declared, problem, answer.centroids, {}).objective;
    verdict.oracle_objective = oracle->objective_after(same, !problem.memberships.empty());
    verdict.relative_difference = (verdict.objective - verdict.oracle_objective) /
                                  (verdict.oracle_objective > 0.0 ? verdict.oracle_objective : 1.0);
    report("objective", worse_than_oracle(declared, problem, answer, verdict));
  }
}

template void judge_approximate_step(const Declaration&, const Problem<float>&,
                                     const JudgedAnswer<float>&, const PointSelection&, Report&);
template void judge_approximate_step(const Declaration&, const Problem<double>&,
                                     const JudgedAnswer<double>&, const PointSelection&, Report&);
template void judge_approximately(const Declaration&, const Problem<float>&,
                                  const JudgedAnswer<float>&, const OracleRun*,
                                  const PointSelection&, Report&);
template void judge_approximately(const Declaration&, const Problem<double>&,
                                  const JudgedAnswer<double>&, const OracleRun*,
                                  const PointSelection&, Report&);

} // namespace clusterbench

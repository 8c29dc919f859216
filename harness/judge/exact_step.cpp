#include "harness/judge/exact_step.hpp"

#include "harness/judge/known_sets.hpp"
#include "harness/judge/label_check.hpp"
#include "harness/judge/membership_check.hpp"
#include "harness/judge/origin.hpp"
#include "harness/judge/pass_view.hpp"
#include "harness/judge/projected_means.hpp"
#include "harness/judge/rounding.hpp"

#include <fmt/format.h>

#include <cmath>

namespace clusterbench {
namespace {

template <typename T>
class Step {
public:
  Step(const Declaration& declared, const Problem<T>& problem, const JudgedAnswer<T>& answer,
       const PointSelection& points, std::uint64_t seed, Report& report)
      : declared_(declared), problem_(problem), answer_(answer), points_(points), seed_(seed),
        report_(report), entering_(known_entering(problem, answer)) {}

  void judge_kmeans() {
    const bool of_returned = declared_.labels == LabelsFrom::returned_centroids;
    const auto centroids = of_returned ? answer_.centroids : entering_;
    if (!centroids.empty()) { // else nobody knows what the labels came from
      keep_labels(check_labels(declared_, problem_, centroids, answer_.labels, points_));
    }
    if (!of_returned) {
      judge_means("means",
                  view_means_of_labels(declared_, problem_, answer_.labels, answer_.centroids));
    } else {
      judge_means_from_entering("means");
    }
  }

  void judge_fcm() {
    const bool from_memberships = !problem_.memberships.empty();
    const auto centroids = from_memberships ? answer_.centroids : entering_;
    report_("row sums", check_row_sums(problem_, answer_.memberships).violation);
    if (!centroids.empty()) {
      report_("memberships",
              check_memberships(declared_, problem_, centroids, answer_.memberships, points_)
                  .violation);
    }
    keep_labels(check_fuzzy_labels(declared_, problem_, centroids, answer_.memberships,
                                   answer_.labels, points_));
    if (!from_memberships) {
      judge_means_of(answer_.memberships);
    } else if (answer_.iterations == 1) {
      judge_means_of(problem_.memberships);
    } else {
      judge_means_from_entering("centres");
    }
  }

private:
  void keep_labels(const PointFindings& labels) {
    report_("labels", labels.violation);
    report_.verdict.labels_off = labels.off;
    report_.verdict.labels_judged = points_.size();
  }

  void judge_means(const char* check, const MeansView& means) {
    const bool keeps_empty = declared_.family == Family::kmeans;
    report_(check, declared_.reseeds_empty
                       ? means.violation_if_reseeded(answer_.centroids)
                       : means.violation(answer_.centroids,
                                         keeps_empty ? entering_ : std::span<const T>{}));
  }

  void judge_means_of(std::span<const T> memberships) {
    if (points_.is_sample()) {
      report_("centres",
              wrong_projected_mean(declared_, problem_, memberships, answer_.centroids, seed_));
    } else {
      judge_means("centres",
                  view_means_of_memberships(declared_, problem_, memberships, answer_.centroids));
    }
  }

  /// The labels or memberships between are not part of the answer.
  void judge_means_from_entering(const char* check) {
    if (!points_.is_sample() && !entering_.empty()) {
      judge_means(check, view_pass(declared_, problem_, entering_, answer_.centroids).means);
    }
  }

  const Declaration& declared_;
  const Problem<T>& problem_;
  const JudgedAnswer<T>& answer_;
  const PointSelection& points_;
  std::uint64_t seed_;
  Report& report_;
  std::span<const T> entering_;
};

} // namespace

template <typename T>
std::optional<std::string> wrong_entering(const Declaration& declared, const Problem<T>& problem,
                                          const JudgedAnswer<T>& answer) {
  if (!can_compare_entering(answer)) {
    return std::nullopt;
  }
  const std::size_t d = problem.d;
  const bool single = answer.iterations == 1;
  const auto expected =
      single ? problem.centroids
             : answer.recorded.subspan((answer.iterations - 2) * problem.k * d, problem.k * d);
  const Origin origin = origin_of(declared, problem);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = static_cast<double>(answer.entering[i]);
    const double wanted = static_cast<double>(expected[i]);
    // Whoever takes the mean off and adds it again rounds each time.
    const double allowed =
        origin.is_mean ? 4.0 * unit_roundoff<T> * (std::abs(wanted) + std::abs(origin.at[i % d]))
                       : 0.0;
    if (!(std::abs(got - wanted) <= allowed)) {
      return fmt::format("cluster {}, feature {}: got {:.9g}, but {} {:.9g}", i / d, i % d, got,
                         single ? "the start says" : "the pass before recorded", wanted);
    }
  }
  return std::nullopt;
}

template <typename T>
void judge_exact_step(const Declaration& declared, const Problem<T>& problem,
                      const JudgedAnswer<T>& answer, const PointSelection& points,
                      std::uint64_t seed, Report& report) {
  report.verdict.sampled = report.verdict.sampled || points.is_sample();
  if (can_compare_entering(answer)) {
    report("entering", wrong_entering(declared, problem, answer));
  }
  Step<T> step(declared, problem, answer, points, seed, report);
  if (declared.family == Family::kmeans) {
    step.judge_kmeans();
  } else {
    step.judge_fcm();
  }
}

template std::optional<std::string> wrong_entering(const Declaration&, const Problem<float>&,
                                                   const JudgedAnswer<float>&);
template std::optional<std::string> wrong_entering(const Declaration&, const Problem<double>&,
                                                   const JudgedAnswer<double>&);
template void judge_exact_step(const Declaration&, const Problem<float>&,
                               const JudgedAnswer<float>&, const PointSelection&, std::uint64_t,
                               Report&);
template void judge_exact_step(const Declaration&, const Problem<double>&,
                               const JudgedAnswer<double>&, const PointSelection&, std::uint64_t,
                               Report&);

} // namespace clusterbench

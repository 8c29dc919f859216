#include "harness/judge/verifier.hpp"

#include "harness/judge/answer_form.hpp"
#include "harness/judge/point_checks.hpp"
#include "harness/judge/report.hpp"
#include "harness/judge/rounding.hpp"
#include "harness/judge/run_view.hpp"
#include "harness/judge/stop_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

namespace clusterbench {
namespace {

/// entering: the centroids of the last pass, which an empty cluster keeps; empty if unknown.
template <typename T>
void check_means(const Declaration& meta, const Problem<T>& problem, const Answer<T>& answer,
                 std::span<const T> entering, Report& report) {
  const bool fcm = meta.family == Family::fcm;
  const bool from_memberships = !problem.memberships.empty();
  if (fcm && !from_memberships) {
    const MeansView means =
        view_means_of_memberships(meta, problem, answer.memberships, answer.centroids);
    report("centres", means.offence(answer.centroids, {}));
  } else if (!fcm && meta.labels == LabelsFrom::entering_centroids) {
    const MeansView means = view_means_of_labels(meta, problem, answer.labels, answer.centroids);
    if (!(meta.reseeds_empty && means.may_have_empty())) {
      report("means", means.offence(answer.centroids, entering));
    }
  }
}

/// Judges an answer of the right form.
template <typename T>
class Judge {
public:
  /// oracle: nullptr for a single pass from a given state, and for a run that is judged by itself.
  Judge(const Declaration& meta, const Problem<T>& problem, const Answer<T>& answer,
        const OracleRun* oracle, const VerifyOptions& options, Report& report)
      : meta_(meta), problem_(problem), answer_(answer), oracle_(oracle), options_(options),
        report_(report), run_(meta, problem, answer, options.budget, oracle != nullptr) {}

  void judge() { judge(cost_of_look(meta_.family, problem_) > options_.budget, nullptr); }

  /// Of a run that the oracle does not repeat: as many passes as the budget allows, and of labels and
  /// memberships a sample.
  void judge_by_itself() {
    const PointSelection points = sample();
    judge(true, &points);
    const auto before = run_.from_memberships() ? run_.set(1) : run_.set(0);
    if (!before.empty() && !meta_.reseeds_empty) {
      report_("descent", check_descent(meta_, problem_, before, answer_.centroids,
                                       answer_.memberships, answer_.labels, points));
    }
  }

private:
  /// The most that any earlier pass left to rounding.
  struct Doubt {
    double share = 0.0;  ///< of the points, as SeenSet::doubt
    double choice = 0.0; ///< of the objective, as SeenSet::may_rise
  };

  void judge(bool some_points, const PointSelection* for_stop_rule) {
    report_.verdict.sampled = run_.sampled();
    check_recording();
    check_stop_rule(for_stop_rule);
    check_points(some_points ? sample() : PointSelection::all(problem_.n));
    check_means(meta_, problem_, answer_, run_.set(run_.passes() - 1), report_);
    check_objective();
  }

  PointSelection sample() const {
    return PointSelection::sample(problem_.n, options_.sampled_points, options_.seed);
  }

  bool fcm() const { return meta_.family == Family::fcm; }

  void check_recording() {
    if (!answer_.recorded.empty()) {
      const std::size_t d = problem_.d;
      const auto last = answer_.recorded.last(problem_.k * d);
      const auto [recorded, returned] =
          std::mismatch(last.begin(), last.end(), answer_.centroids.begin());
      const auto i = static_cast<std::size_t>(recorded - last.begin());
      report_("recording", recorded == last.end()
                               ? std::nullopt
                               : std::optional(fmt::format(
                                     "cluster {}, feature {}: got {:.9g}, but the last pass "
                                     "recorded {:.9g}",
                                     i / d, i % d, static_cast<double>(*returned),
                                     static_cast<double>(*recorded))));
    }
    if (run_.compared_passes()) {
      report_("passes", run_.wrong_pass());
    }
  }

  void check_stop_rule(const PointSelection* sample) {
    const StopFindings stop = check_stop(meta_, problem_, answer_, run_, sample);
    if (stop.offence || !stop.too_coarse) {
      report_("stop rule", stop.offence);
    }
    report_.verdict.early_stop = stop.early_stop;
  }

  void check_points(const PointSelection& points) {
    report_.verdict.sampled = report_.verdict.sampled || points.is_sample();
    const std::size_t last = run_.passes();
    PointFindings labels;
    if (fcm()) {
      const auto centroids = run_.set(run_.from_memberships() ? last : last - 1);
      report_("row sums", check_row_sums(problem_, answer_.memberships).offence);
      if (!centroids.empty()) {
        report_("memberships",
                check_memberships(meta_, problem_, centroids, answer_.memberships, points).offence);
      }
      labels = check_fuzzy_labels(meta_, problem_, centroids, answer_.memberships, answer_.labels,
                                  points);
    } else {
      const auto centroids =
          run_.set(meta_.labels == LabelsFrom::returned_centroids ? last : last - 1);
      if (centroids.empty()) {
        return; // without a recording, nobody knows what the labels came from
      }
      labels = check_labels(meta_, problem_, centroids, answer_.labels, points);
    }
    report_("labels", labels.offence);
    report_.verdict.labels_off = labels.off;
  }

  void check_objective() {
    const std::size_t last = run_.passes();
    Doubt doubt;
    for (std::size_t s = 0; s <= last; ++s) {
      const SeenSet& seen = run_.seen(s);
      if (seen.has_objective) {
        if (seen.follows && !took_another_path()) {
          report_("never rises", rises(s));
        }
        if (oracle_ != nullptr && must_agree_with_oracle() && s < last &&
            s <= oracle_->iterations) {
          report_("trace", differs_from_oracle(s, s, doubt));
        }
        doubt.share = std::max(doubt.share, seen.doubt);
        doubt.choice = std::max(doubt.choice, seen.may_rise);
      }
    }
    check_precision(doubt);
    Verdict& verdict = report_.verdict;
    if (run_.seen(last).has_objective) {
      verdict.objective = run_.seen(last).objective;
    }
    verdict.trace = trace();
    if (oracle_ != nullptr) {
      const std::size_t same = std::min(last, oracle_->iterations);
      const double expected = oracle_objective(same);
      verdict.oracle_objective = expected;
      verdict.relative_difference =
          (verdict.objective - expected) / (expected > 0.0 ? expected : 1.0);
      if (must_agree_with_oracle()) {
        report_("objective", differs_from_oracle(last, same, doubt));
      }
    }
  }

  /// Where every pass follows from the one before, the run is right by induction, and rounding may
  /// have led it to other minima than the oracle's: a point that changes its cluster early on takes
  /// others with it. How far apart they end is in the verdict all the same.
  bool must_agree_with_oracle() const {
    return !took_another_path() && !run_.every_pass_is_right();
  }

  /// Where rounding may decide more than a few labels, almost anything "follows from the pass
  /// before". There every pass must bring the objective as far down as exact arithmetic does, or
  /// the run must end where the oracle's does.
  void check_precision(const Doubt& doubt) {
    if (!options_.judges_precision || !(doubt.share > kMostDoubt) || took_another_path()) {
      return;
    }
    std::optional<std::string> where;
    bool seen = false;
    for (std::size_t s = 1; s <= run_.passes(); ++s) {
      if (run_.seen(s).follows) {
        seen = true;
        where = where ? where : falls_short(s, doubt);
      }
    }
    const std::size_t last = run_.passes();
    if (where && oracle_ != nullptr &&
        !differs_from_oracle(last, std::min(last, oracle_->iterations), doubt)) {
      where.reset();
    }
    if (seen) {
      report_("precision", where);
    }
  }

  std::optional<std::string> falls_short(std::size_t s, const Doubt& doubt) const {
    const SeenSet& before = run_.seen(s - 1);
    const double got = run_.seen(s).objective;
    const double allowed = allowed_difference(before.next_objective, {}) + before.mean_noise;
    return got <= before.next_objective + allowed
               ? std::nullopt
               : std::optional(
                     fmt::format("iteration {}: objective {:.12g}, exact arithmetic comes "
                                 "down to {:.12g} at least (allowed +{:.3g}){}",
                                 s, got, before.next_objective, allowed, too_imprecise(doubt)));
  }

  /// Why, if so much is in doubt.
  std::string too_imprecise(const Doubt& doubt) const {
    if (!(doubt.share > kMostDoubt)) {
      return "";
    }
    const char* const form = meta_.arithmetic != Arithmetic::as_data ? "declared arithmetic"
                             : meta_.distance == DistanceForm::expanded
                                 ? "expanded form (|x|^2 - 2 x.c + |c|^2)"
                                 : "data";
    return fmt::format("; rounding may decide {:.3g} % of the labels: the precision of the {} is "
                       "too low for these data",
                       100.0 * doubt.share, form);
  }

  /// A variant that re-seeds empty clusters leaves the oracle's path where there are some.
  bool took_another_path() const {
    bool empty = oracle_ != nullptr && oracle_->empty_at > 0;
    for (std::size_t s = 0; s <= run_.passes(); ++s) {
      empty = empty || run_.seen(s).may_have_empty;
    }
    return meta_.reseeds_empty && empty;
  }

  std::optional<std::string> rises(std::size_t s) const {
    const SeenSet& before = run_.seen(s - 1);
    const double got = run_.seen(s).objective;
    const double most = before.objective * (1.0 + 1e-12) + before.may_rise;
    return got <= most
               ? std::nullopt
               : std::optional(fmt::format("iteration {}: objective {:.12g}, before it {:.12g} "
                                           "(allowed up to {:.12g})",
                                           s, got, before.objective, most));
  }

  /// One entry per pass, if all could be looked at.
  Trace trace() const {
    Trace result;
    for (std::size_t pass = 0; pass < run_.passes(); ++pass) {
      const SeenSet& seen = run_.seen(run_.from_memberships() ? pass + 1 : pass);
      if (!seen.has_objective) {
        return {};
      }
      result.loss.push_back(seen.loss);
      if (!fcm()) {
        result.inertia.push_back(seen.objective);
      }
    }
    return result;
  }

  /// The oracle's objective of a set that it has.
  double oracle_objective(std::size_t number) const {
    return run_.from_memberships()         ? oracle_->loss[number - 1]
           : number == oracle_->iterations ? oracle_->final_objective
           : fcm()                         ? oracle_->loss[number]
                                           : oracle_->inertia[number];
  }

  /// How far an objective may be from the oracle's. Beyond the drift of a precision: points in
  /// doubt may take other centroids with them, or, where nearly every point has a cluster of its
  /// own, be most of the objective themselves; and coordinates that T resolves to r change a sum
  /// of n squares J to (sqrt(J) + sqrt(n) * r)^2 at most.
  double allowed_difference(double expected, const Doubt& doubt) const {
    double longest = 0.0;
    for (std::size_t j = 0; j < problem_.k; ++j) {
      double length = 0.0;
      for (const T value : answer_.centroids.subspan(j * problem_.d, problem_.d)) {
        length += static_cast<double>(value) * static_cast<double>(value);
      }
      longest = std::max(longest, length);
    }
    const double resolution =
        4.0 * unit_roundoff<T> * std::sqrt(static_cast<double>(problem_.n) * longest);
    return (objective_drift<T>(meta_.arithmetic) + 4.0 * doubt.share) * expected + doubt.choice +
           2.0 * resolution * std::sqrt(expected) + resolution * resolution;
  }

  std::optional<std::string> differs_from_oracle(std::size_t number, std::size_t oracle_number,
                                                 const Doubt& doubt) const {
    const double got = run_.seen(number).objective;
    const double expected = oracle_objective(oracle_number);
    const double allowed = allowed_difference(expected, granted(doubt));
    // More passes than the oracle's can only have come further down.
    const bool may_be_lower = number != oracle_number;
    if (got - expected <= allowed && (may_be_lower || expected - got <= allowed)) {
      return std::nullopt;
    }
    return fmt::format("after iteration {}: got {:.12g}, expected {:.12g} (allowed +-{:.3g}){}",
                       number, got, expected, allowed, too_imprecise(doubt));
  }

  /// Few points in doubt excuse a difference. Many would excuse any: where all passes are known,
  /// they excuse none, and elsewhere no more than few would.
  Doubt granted(const Doubt& doubt) const {
    if (!options_.judges_precision || !(doubt.share > kMostDoubt)) {
      return doubt;
    }
    return run_.every_pass_compared() ? Doubt{} : Doubt{.share = kMostDoubt, .choice = 0.0};
  }

  const Declaration& meta_;
  const Problem<T>& problem_;
  const Answer<T>& answer_;
  const OracleRun* oracle_;
  const VerifyOptions& options_;
  Report& report_;
  RunView<T> run_;
};

template <typename T>
Verdict judge(const Declaration& meta, const Problem<T>& problem, const Answer<T>& answer,
              const OracleRun* oracle, const VerifyOptions& options) {
  Report report;
  if (has_right_form(meta.family == Family::fcm, problem, answer, report)) {
    Judge<T>(meta, problem, answer, oracle, options, report).judge();
  }
  return std::move(report.verdict);
}

} // namespace

std::string Verdict::message() const {
  std::string text;
  for (const Finding& finding : findings) {
    text += (text.empty() ? "" : "\n") + finding.check + ": " + finding.where;
  }
  return text;
}

template <typename T>
Verdict verify_answer(const Declaration& meta, const Problem<T>& problem, const Answer<T>& answer,
                      const OracleRun& oracle, const VerifyOptions& options) {
  if (oracle.iterations == 0 || oracle.iterations > problem.stop.max_iterations ||
      oracle.loss.size() != oracle.iterations || oracle.centroids.size() != oracle.iterations + 1 ||
      oracle.centroids.back().size() != problem.k * problem.d ||
      (meta.family == Family::kmeans && oracle.inertia.size() != oracle.iterations)) {
    throw std::invalid_argument("verify_answer: the oracle's run is of another problem");
  }
  return judge(meta, problem, answer, &oracle, options);
}

template <typename T>
Verdict verify_consistency(const Declaration& meta, const Problem<T>& problem,
                           const Answer<T>& answer, const VerifyOptions& options) {
  Report report;
  if (has_right_form(meta.family == Family::fcm, problem, answer, report)) {
    Judge<T>(meta, problem, answer, nullptr, options, report).judge_by_itself();
  }
  return std::move(report.verdict);
}

template <typename T>
Verdict verify_one_step(const Declaration& meta, const Problem<T>& one_pass,
                        const Answer<T>& answer, const VerifyOptions& options) {
  if (one_pass.stop.kind != StopRule::Kind::iterations || one_pass.stop.max_iterations != 1) {
    throw std::invalid_argument("verify_one_step: the problem is not of one iteration");
  }
  return judge<T>(meta, one_pass, answer, nullptr, options);
}

template Verdict verify_answer(const Declaration&, const Problem<float>&, const Answer<float>&,
                               const OracleRun&, const VerifyOptions&);
template Verdict verify_answer(const Declaration&, const Problem<double>&, const Answer<double>&,
                               const OracleRun&, const VerifyOptions&);
template Verdict verify_consistency(const Declaration&, const Problem<float>&, const Answer<float>&,
                                    const VerifyOptions&);
template Verdict verify_consistency(const Declaration&, const Problem<double>&,
                                    const Answer<double>&, const VerifyOptions&);
template Verdict verify_one_step(const Declaration&, const Problem<float>&, const Answer<float>&,
                                 const VerifyOptions&);
template Verdict verify_one_step(const Declaration&, const Problem<double>&, const Answer<double>&,
                                 const VerifyOptions&);

} // namespace clusterbench

#include "harness/judge/objective_check.hpp"

#include "harness/judge/oracle.hpp"
#include "harness/judge/pass_view.hpp"
#include "harness/judge/path_check.hpp"
#include "harness/judge/rounding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

template <typename T>
class ObjectiveJudge {
public:
  ObjectiveJudge(const Declaration& declared, const Problem<T>& problem,
                 const JudgedAnswer<T>& answer, const RunView<T>& run, const OracleRun* oracle,
                 const VerifyOptions& options, Report& report)
      : declared_(declared), problem_(problem), answer_(answer), run_(run), oracle_(oracle),
        options_(options), report_(report), total_weight_(problem.total_weight()) {}

  void judge() {
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
        doubt.of_objective = std::max(doubt.of_objective, seen.heavy_doubt);
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
      const double expected = oracle_->objective_after(same, run_.from_memberships());
      verdict.oracle_objective = expected;
      verdict.relative_difference =
          (verdict.objective - expected) / (expected > 0.0 ? expected : 1.0);
      if (took_another_path() && oracle_->empty_at == 0) {
        report_("objective", above_oracle(last, same, doubt));
      }
      if (must_agree_with_oracle()) {
        const bool differs = differs_from_oracle(last, same, doubt) || renumbered(expected, doubt);
        if (differs && answer_.recorded.empty()) { // nobody has seen what was in doubt on the way
          add_doubt_of_oracle(doubt);
          doubt.of_path = may_be_of_another_path(last, expected) ? spread_of_neighbours(same) : 0.0;
        }
        if (doubt.may_have_empty && verdict.objective < expected) {
          // rounding may have emptied a cluster, and re-seeding it brought the objective down
          return;
        }
        if (!rounding_decides_all(doubt)) {
          report_("objective", differs_from_oracle(last, same, doubt));
        }
        check_path(expected, doubt);
      }
    }
  }

private:
  /// The most that any earlier pass left to rounding.
  struct Doubt {
    double share = 0.0;        ///< of the weight, as SeenSet::doubt
    double choice = 0.0;       ///< of the objective, as SeenSet::may_rise
    double of_objective = 0.0; ///< of the objective, as SeenSet::heavy_doubt
    double of_path = 0.0;      ///< how far runs from beside the start end from one another
    /// Whether one that re-seeds empty clusters may have met some where the oracle has none.
    bool may_have_empty = false;
  };

  bool fcm() const { return declared_.family == Family::fcm; }

  /// Where every pass follows from the one before, the run is right by induction, and rounding may
  /// have led it to other minima than the oracle's: a point that changes its cluster early on takes
  /// others with it. How far apart they end is in the verdict all the same.
  bool must_agree_with_oracle() const {
    return !took_another_path() && !run_.every_pass_is_right();
  }

  /// Which pass and which start the answer belongs to, where rounding has not led it elsewhere.
  void check_path(double expected, const Doubt& doubt) {
    if (rounding_decides_who_is_empty(expected)) {
      return;
    }
    report_("passes", earlier_pass(declared_, problem_, answer_, *oracle_));
    if (rounding_decides_little(doubt)) {
      report_("numbers", other_numbers(problem_, answer_, *oracle_, options_.seed));
    }
  }

  std::optional<std::string> renumbered(double expected, const Doubt& doubt) const {
    return rounding_decides_little(doubt) && !rounding_decides_who_is_empty(expected)
               ? other_numbers(problem_, answer_, *oracle_, options_.seed)
               : std::nullopt;
  }
  bool rounding_decides_who_is_empty(double expected) const {
    const double longest = longest_squared(answer_.centroids, problem_.d);
    return lost_objective(problem_, total_weight_, expected, longest) > 0.0;
  }
  /// An outlier that changes its cluster takes the centroid along, and the number of the cluster.
  static bool rounding_decides_little(const Doubt& doubt) {
    constexpr double kMostOfObjective = 1e-4;
    return doubt.share <= kMostDoubt && doubt.of_objective <= kMostOfObjective;
  }
  /// Where most of the objective are outliers in doubt, the oracle's is one of many that are right.
  static bool rounding_decides_all(const Doubt& doubt) { return doubt.of_objective > 0.5; }

  /// What would be in doubt in some of the oracle's states, as many as the budget allows.
  void add_doubt_of_oracle(Doubt& doubt) const {
    constexpr std::size_t kMostStates = 32;
    const auto affordable =
        static_cast<std::size_t>(options_.budget / cost_of_look(declared_.family, problem_));
    const std::size_t count = std::min({affordable, kMostStates, oracle_->states.size()});
    for (std::size_t i = 0; i < count; ++i) {
      const auto& state = oracle_->states[i * (oracle_->states.size() - 1) / count];
      const std::vector<T> centroids(state.centroids.begin(), state.centroids.end());
      // Means beside any centroids tell which clusters may be empty.
      const PassView view = view_pass<T>(declared_, problem_, centroids,
                                         declared_.reseeds_empty ? std::span<const T>(centroids)
                                                                 : std::span<const T>{});
      doubt.may_have_empty |= declared_.reseeds_empty && view.means.possibly_empty() > 0;
      doubt.share = std::max(doubt.share, view.doubt);
      doubt.choice = std::max(doubt.choice, view.choice);
      doubt.of_objective = std::max(doubt.of_objective, heavy_doubt(view));
    }
  }

  /// A point or two that change their clusters early on move an objective by little.
  bool may_be_of_another_path(std::size_t number, double expected) const {
    constexpr double kMost = 0.01;
    return !fcm() && std::abs(run_.seen(number).objective - expected) <= kMost * expected;
  }

  /// The greatest difference of the objective, after so many passes, between an exact run and
  /// those that start beside it, by four times as much as rounding moves a mean: one of several
  /// then meets what rounding may meet. Of most starts it is next to nothing. Of rare ones a
  /// point that changes its cluster in an early pass takes others with it, and rounding decides
  /// where the run ends. 0 where such runs cost too much.
  double spread_of_neighbours(std::size_t passes) const {
    constexpr int kNeighbours = 8;
    const double points = static_cast<double>(problem_.n) / static_cast<double>(problem_.k);
    const double step = 4.0 * unit_roundoff<T> * std::sqrt(points);
    Problem<T> beside = problem_;
    beside.stop = {.kind = StopRule::Kind::iterations, .threshold = 0.0, .max_iterations = passes};
    const OracleOptions options{.budget = options_.budget / kNeighbours,
                                .interrupted = options_.interrupted};
    if (passes == 0 || affordable_passes(beside, options.budget) < passes) {
      return 0.0;
    }
    const auto end_of = [&](std::span<const T> centroids) {
      beside.centroids = centroids;
      return run_oracle(declared_.family, beside, options).objective_after(passes, false);
    };
    const double from_start = end_of(problem_.centroids);
    std::mt19937_64 random(options_.seed);
    double spread = 0.0;
    for (int i = 0; i < kNeighbours; ++i) {
      std::vector<T> centroids(problem_.centroids.begin(), problem_.centroids.end());
      for (T& value : centroids) {
        value = static_cast<T>(static_cast<double>(value) * (1.0 + (random() % 2 ? step : -step)));
      }
      spread = std::max(spread, std::abs(end_of(centroids) - from_start));
    }
    return spread;
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
        where = where || is_tie(run_.seen(s - 1)) ? where : falls_short(s, doubt);
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

  /// Some labels are in doubt, but either is as good: data on a grid have many such.
  bool is_tie(const SeenSet& seen) const {
    constexpr double kMostTies = 0.5;
    return seen.doubt < kMostTies &&
           seen.choice <= objective_drift<T>(declared_.arithmetic) * seen.objective;
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
    const char* const form = declared_.arithmetic != Arithmetic::as_data ? "declared arithmetic"
                             : declared_.distance == DistanceForm::expanded
                                 ? "expanded form (|x|^2 - 2 x.c + |c|^2)"
                                 : "data";
    return fmt::format("; rounding may decide {:.3g} % of the labels: the precision of the {} is "
                       "too low for these data",
                       100.0 * doubt.share, form);
  }

  /// Only rounding can have emptied a cluster where the oracle has no empty one, and re-seeding it
  /// brings the objective down, or hardly raises it in its first pass.
  std::optional<std::string> above_oracle(std::size_t number, std::size_t oracle_number,
                                          const Doubt& doubt) const {
    const double got = run_.seen(number).objective;
    const double expected = oracle_->objective_after(oracle_number, run_.from_memberships());
    constexpr double kMostAbove = 0.05; // of the oracle's objective
    const double allowed = allowed_difference(expected, granted(doubt)) + kMostAbove * expected;
    return got - expected <= allowed
               ? std::nullopt
               : std::optional(fmt::format("after iteration {}, with empty clusters re-seeded: got "
                                           "{:.12g}, without that {:.12g} (allowed +{:.3g})",
                                           number, got, expected, allowed));
  }

  /// A variant that re-seeds empty clusters leaves the oracle's path where there are some.
  bool took_another_path() const {
    bool empty = oracle_ != nullptr && oracle_->empty_at > 0;
    for (std::size_t s = 0; s <= run_.passes(); ++s) {
      empty = empty || run_.seen(s).may_have_empty;
    }
    return declared_.reseeds_empty && empty;
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

  /// How far an objective may be from the oracle's. Beyond the drift of a precision: points in
  /// doubt may take other centroids with them, or be most of the objective themselves, as where
  /// nearly every point has a cluster of its own, or where few points lie far out; and coordinates
  /// that T resolves to r change a sum J of squares with the weight W to (sqrt(J) + sqrt(W) * r)^2
  /// at most. Rounding may take a run farther than those that start beside it.
  double allowed_difference(double expected, const Doubt& doubt) const {
    const double longest = longest_squared(answer_.centroids, problem_.d);
    const double resolution = 4.0 * unit_roundoff<T> * std::sqrt(total_weight_ * longest);
    const double share = std::max(doubt.share, doubt.of_objective);
    return (objective_drift<T>(declared_.arithmetic) + 4.0 * share) * expected + doubt.choice +
           2.0 * doubt.of_path + 2.0 * resolution * std::sqrt(std::max(expected, 0.0)) +
           resolution * resolution + lost_objective(problem_, total_weight_, expected, longest);
  }

  /// More passes than the oracle's, which rounding may make of a rule, come further down: each by
  /// no more than some of what the oracle's last pass did.
  double further_passes(std::size_t number) const {
    return number > oracle_->iterations ? 4.0 * static_cast<double>(number - oracle_->iterations)
                                        : 0.0;
  }
  double last_descent() const {
    const std::size_t last = oracle_->iterations;
    const std::size_t before =
        run_.from_memberships() ? std::max<std::size_t>(last, 2) - 1 : last - 1;
    return std::abs(oracle_->objective_after(before, run_.from_memberships()) -
                    oracle_->final_objective);
  }

  std::optional<std::string> differs_from_oracle(std::size_t number, std::size_t oracle_number,
                                                 const Doubt& doubt) const {
    const double got = run_.seen(number).objective;
    const double expected = oracle_->objective_after(oracle_number, run_.from_memberships());
    const double allowed = allowed_difference(expected, granted(doubt));
    const double further_down = further_passes(number) * last_descent();
    if (got - expected <= allowed && expected - got <= allowed + further_down) {
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
    return run_.every_pass_compared()
               ? Doubt{}
               : Doubt{.share = kMostDoubt, .choice = 0.0, .of_objective = doubt.of_objective};
  }

  const Declaration& declared_;
  const Problem<T>& problem_;
  const JudgedAnswer<T>& answer_;
  const RunView<T>& run_;
  const OracleRun* oracle_;
  const VerifyOptions& options_;
  Report& report_;
  double total_weight_; ///< of all points
};

} // namespace

template <typename T>
void judge_objectives(const Declaration& declared, const Problem<T>& problem,
                      const JudgedAnswer<T>& answer, const RunView<T>& run, const OracleRun* oracle,
                      const VerifyOptions& options, Report& report) {
  ObjectiveJudge<T>(declared, problem, answer, run, oracle, options, report).judge();
}

template void judge_objectives(const Declaration&, const Problem<float>&,
                               const JudgedAnswer<float>&, const RunView<float>&, const OracleRun*,
                               const VerifyOptions&, Report&);
template void judge_objectives(const Declaration&, const Problem<double>&,
                               const JudgedAnswer<double>&, const RunView<double>&,
                               const OracleRun*, const VerifyOptions&, Report&);

} // namespace clusterbench

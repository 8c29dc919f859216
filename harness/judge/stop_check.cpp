#include "harness/judge/stop_check.hpp"

#include "harness/judge/label_check.hpp"
#include "harness/judge/rounding.hpp"

#include <fmt/format.h>

#include <cmath>

namespace clusterbench {
namespace {

enum class Met { surely, surely_not, open };

struct Ruling {
  Met met;
  std::string why;
  bool too_coarse = false; ///< rounding exceeds the threshold
};

Ruling below(double value, double threshold, double rounding, const char* what) {
  const Met met = value + rounding < threshold    ? Met::surely
                  : value - rounding <= threshold ? Met::open
                                                  : Met::surely_not;
  return {
      met,
      fmt::format("{} {:.9g}, threshold {:.9g}, rounding {:.2g}", what, value, threshold, rounding),
      rounding > threshold};
}

template <typename T>
Ruling shift_met(const Problem<T>& problem, const RunView<T>& run, std::size_t pass) {
  if (run.set(pass).empty() || run.set(pass - 1).empty()) {
    return {Met::open, "unknown centroids"};
  }
  // A variant may hold its coordinates in more digits than T, in which they are handed over.
  const double u = unit_roundoff<T>;
  double rounding = 0.0;
  for (std::size_t i = 0; i < problem.k * problem.d; ++i) {
    const double value = static_cast<double>(run.set(pass)[i]);
    const double shift = std::abs(value - static_cast<double>(run.set(pass - 1)[i]));
    rounding += 4.0 * u * std::abs(value) * shift + 4.0 * u * u * value * value;
  }
  const double terms = static_cast<double>(problem.k * problem.d) + kExtraOperations;
  const double shift = run.squared_shift(pass);
  return below(shift, problem.stop.threshold, rounding + terms * u * shift, "squared shift");
}

/// Whether a pass (counted from 1) met the stop rule.
template <typename T>
Ruling judge_pass(const Problem<T>& problem, const RunView<T>& run, std::size_t pass) {
  if (problem.stop.kind == StopRule::Kind::shift) {
    return shift_met(problem, run, pass);
  }
  if (pass == 1) {
    return {Met::surely_not, "the first pass has nothing before it"};
  }
  // A pass from memberships computes its distances from the centres that it has produced.
  const std::size_t set = run.from_memberships() ? pass : pass - 1;
  const SeenSet& now = run.seen(set);
  if (!now.follows) {
    return {Met::open, "unknown centroids"};
  }
  if (problem.stop.kind == StopRule::Kind::loss) {
    const SeenSet& before = run.seen(set - 1);
    return below(std::abs(now.loss - before.loss), problem.stop.threshold,
                 now.loss_rounding + before.loss_rounding, "loss changed by");
  }
  const Met met = now.changed_labels > 0     ? Met::surely_not
                  : now.doubtful_labels == 0 ? Met::surely
                                             : Met::open;
  return {met,
          fmt::format("{} labels changed, {} in doubt", now.changed_labels, now.doubtful_labels)};
}

/// The same from what was returned alone, and from some points: the next pass takes its labels from
/// the returned centroids. Nothing can be said so of memberships.
template <typename T>
std::optional<std::string> next_would_change(const Declaration& declared, const Problem<T>& problem,
                                             const JudgedAnswer<T>& answer,
                                             const PointSelection& points) {
  if (declared.family == Family::fcm) {
    return std::nullopt;
  }
  if (declared.labels == LabelsFrom::entering_centroids) {
    const auto labels = check_labels(declared, problem, answer.centroids, answer.labels, points);
    return labels.violation ? std::optional("the next would change labels: " + *labels.violation)
                            : std::nullopt;
  }
  const MeansView means = view_means_of_labels(declared, problem, answer.labels, answer.centroids);
  const auto where = means.violation(answer.centroids, answer.centroids);
  return where ? std::optional("the next would move " + *where) : std::nullopt;
}

/// Why one more pass would change something beyond rounding; nothing at a fixed point.
template <typename T>
std::optional<std::string> still_moves(const Declaration& declared, const Problem<T>& problem,
                                       const JudgedAnswer<T>& answer, const RunView<T>& run,
                                       const PointSelection* sample) {
  const std::size_t last = run.passes();
  if (declared.family == Family::kmeans && run.seen(last).follows) {
    const std::size_t changed = run.seen(last).changed_labels;
    return changed == 0 ? std::nullopt
                        : std::optional(fmt::format("the next would change {} labels", changed));
  }
  if (declared.family == Family::fcm && !run.set(last - 1).empty()) {
    double length = 0.0;
    for (const T value : run.set(last)) {
      length += static_cast<double>(value) * static_cast<double>(value);
    }
    const double shift = std::sqrt(run.squared_shift(last));
    return shift <= 4.0 * unit_roundoff<T> * std::sqrt(length)
               ? std::nullopt
               : std::optional(fmt::format("the last moved the centres by {:.3g}", shift));
  }
  if (sample != nullptr) {
    return next_would_change(declared, problem, answer, *sample);
  }
  const PassView next = view_pass(declared, problem, run.set(last), run.set(last));
  const auto where = next.means.violation(run.set(last), run.set(last));
  return where ? std::optional("the next would move " + *where) : std::nullopt;
}

} // namespace

template <typename T>
StopFindings check_stop(const Declaration& declared, const Problem<T>& problem,
                        const JudgedAnswer<T>& answer, const RunView<T>& run,
                        const PointSelection* sample) {
  StopFindings findings;
  const bool early = run.passes() < problem.stop.max_iterations;
  if (problem.stop.kind == StopRule::Kind::iterations) {
    if (early) {
      const auto moves = still_moves(declared, problem, answer, run, sample);
      findings.early_stop = !moves;
      if (moves) {
        findings.violation = fmt::format("stopped after {} of {} iterations, but {}", run.passes(),
                                         problem.stop.max_iterations, *moves);
      }
    }
    return findings;
  }
  for (std::size_t pass = 1; pass < run.passes(); ++pass) {
    const Ruling ruling = judge_pass(problem, run, pass);
    if (ruling.met == Met::surely) {
      findings.violation = fmt::format("iteration {} met the rule ({}), but {} were made", pass,
                                       ruling.why, run.passes());
      return findings;
    }
  }
  const Ruling ruling = judge_pass(problem, run, run.passes());
  findings.too_coarse = problem.stop.kind == StopRule::Kind::loss && ruling.too_coarse;
  if (early) {
    if (ruling.met == Met::surely_not) {
      findings.violation = fmt::format("iteration {} was the last, but did not meet the rule: {}",
                                       run.passes(), ruling.why);
    }
  }
  return findings;
}

template StopFindings check_stop(const Declaration&, const Problem<float>&,
                                 const JudgedAnswer<float>&, const RunView<float>&,
                                 const PointSelection*);
template StopFindings check_stop(const Declaration&, const Problem<double>&,
                                 const JudgedAnswer<double>&, const RunView<double>&,
                                 const PointSelection*);

} // namespace clusterbench

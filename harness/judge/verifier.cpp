#include "harness/judge/verifier.hpp"

#include "harness/judge/answer_form.hpp"
#include "harness/judge/approximate_check.hpp"
#include "harness/judge/descent_check.hpp"
#include "harness/judge/exact_step.hpp"
#include "harness/judge/objective_check.hpp"
#include "harness/judge/point_selection.hpp"
#include "harness/judge/report.hpp"
#include "harness/judge/run_view.hpp"
#include "harness/judge/same_check.hpp"
#include "harness/judge/stop_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

namespace clusterbench {
namespace {

double operations_of_point(const auto& problem) {
  return 3.0 * static_cast<double>(problem.k) * static_cast<double>(problem.d);
}

template <typename T>
std::size_t size_of_sample(const Problem<T>& problem, const VerifyOptions& options) {
  constexpr double kLeast = 1000.0; // however many operations a point takes
  const double affordable = std::max(kLeast, options.sample_budget / operations_of_point(problem));
  return static_cast<std::size_t>(
      std::min(affordable, static_cast<double>(options.sampled_points)));
}

/// All points, or as many as the budget of the exact step pays for.
template <typename T>
PointSelection points_of_step(const Problem<T>& problem, const VerifyOptions& options) {
  const double affordable =
      std::min(options.step_budget / operations_of_point(problem), static_cast<double>(problem.n));
  return PointSelection::sample(
      problem.n, std::max(size_of_sample(problem, options), static_cast<std::size_t>(affordable)),
      options.seed);
}

template <typename T>
PointSelection some_points(const Problem<T>& problem, const VerifyOptions& options) {
  return PointSelection::sample(problem.n, size_of_sample(problem, options), options.seed);
}

/// Whether the last of the recorded centroids are the returned ones.
template <typename T>
std::optional<std::string> wrong_recording(const Problem<T>& problem,
                                           const JudgedAnswer<T>& answer) {
  const std::size_t d = problem.d;
  const auto last = answer.recorded.last(problem.k * d);
  const auto [recorded, returned] =
      std::mismatch(last.begin(), last.end(), answer.centroids.begin());
  if (recorded == last.end()) {
    return std::nullopt;
  }
  const auto i = static_cast<std::size_t>(recorded - last.begin());
  return fmt::format("cluster {}, feature {}: got {:.9g}, but the last pass recorded {:.9g}", i / d,
                     i % d, static_cast<double>(*returned), static_cast<double>(*recorded));
}

/// What all judgements of a run have in common; the answer has the right form.
/// alone: there is no oracle's run because it would be too much.
template <typename T>
void judge_run(const Declaration& declared, const Problem<T>& problem,
               const JudgedAnswer<T>& answer, const OracleRun* oracle, bool alone,
               const VerifyOptions& options, Report& report) {
  const RunView<T> run(declared, problem, answer, options.budget, oracle != nullptr);
  report.verdict.sampled = run.sampled() || alone;
  if (!answer.recorded.empty()) {
    report("recording", wrong_recording(problem, answer));
  }
  if (run.compared_passes()) {
    report("passes", run.wrong_pass());
  }
  const PointSelection some = some_points(problem, options);
  const StopFindings stop = check_stop(declared, problem, answer, run, alone ? &some : nullptr);
  if (stop.violation || !stop.too_coarse) {
    report("stop rule", stop.violation);
  }
  report.verdict.early_stop = stop.early_stop;
  judge_exact_step(declared, problem, answer, points_of_step(problem, options), options.seed,
                   report);
  judge_objectives(declared, problem, answer, run, oracle, options, report);
  const auto before = run.from_memberships() ? run.set(1) : run.set(0);
  if (alone && !before.empty() && !declared.reseeds_empty) {
    report("descent", check_descent(declared, problem, before, answer, some));
  }
}

/// What can be said of an approximate answer where the oracle's run would be too much.
template <typename T>
void judge_approximately_alone(const Declaration& declared, const Problem<T>& problem,
                               const JudgedAnswer<T>& answer, const VerifyOptions& options,
                               Report& report) {
  judge_approximately(declared, problem, answer, nullptr, points_of_step(problem, options), report);
  if (!problem.centroids.empty()) {
    report("descent", check_descent(declared, problem, problem.centroids, answer,
                                    some_points(problem, options), declared.approximate_within));
  }
}

/// Judges the form, and then the rest with judge(answer, report).
template <typename T, typename Judge>
Verdict judge_form_and(const Declaration& declared, const Problem<T>& problem,
                       const JudgedAnswer<T>& handed_over, const VerifyOptions& options,
                       const Judge& judge) {
  const InterruptScope scope(options.interrupted);
  const JudgedAnswer<T> answer = without_unwritten(problem, handed_over);
  Report report;
  if (has_right_form(declared.family == Family::fcm, problem, answer, report)) {
    judge(answer, report);
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
Verdict verify_answer(const Declaration& declared, const Problem<T>& problem,
                      const JudgedAnswer<T>& answer, const OracleRun& oracle,
                      const VerifyOptions& options) {
  if (!fits(oracle, declared.family, problem)) {
    throw std::invalid_argument("verify_answer: the oracle's run is of another problem");
  }
  if (!oracle.reaches(answer.iterations)) {
    return verify_consistency(declared, problem, answer, options);
  }
  return judge_form_and(declared, problem, answer, options,
                        [&](const auto& written, Report& report) {
                          if (declared.approximate_within > 0.0) {
                            judge_approximately(declared, problem, written, &oracle,
                                                points_of_step(problem, options), report);
                          } else {
                            judge_run(declared, problem, written, &oracle, false, options, report);
                          }
                        });
}

template <typename T>
Verdict verify_consistency(const Declaration& declared, const Problem<T>& problem,
                           const JudgedAnswer<T>& answer, const VerifyOptions& options) {
  return judge_form_and(declared, problem, answer, options,
                        [&](const auto& written, Report& report) {
                          if (declared.approximate_within > 0.0) {
                            judge_approximately_alone(declared, problem, written, options, report);
                          } else {
                            judge_run(declared, problem, written, nullptr, true, options, report);
                          }
                        });
}

template <typename T>
Verdict verify_one_step(const Declaration& declared, const Problem<T>& one_pass,
                        const JudgedAnswer<T>& answer, const VerifyOptions& options) {
  if (one_pass.stop.kind != StopRule::Kind::iterations || one_pass.stop.max_iterations != 1) {
    throw std::invalid_argument("verify_one_step: the problem is not of one iteration");
  }
  return judge_form_and(
      declared, one_pass, answer, options, [&](const auto& written, Report& report) {
        const double operations = operations_of_point(one_pass) * static_cast<double>(one_pass.n);
        if (declared.approximate_within > 0.0 && operations > options.step_budget) {
          judge_approximately_alone(declared, one_pass, written, options, report);
        } else if (declared.approximate_within > 0.0) {
          const OracleRun oracle = run_oracle(declared.family, one_pass,
                                              {.budget = std::numeric_limits<double>::infinity()});
          judge_approximately(declared, one_pass, written, &oracle,
                              points_of_step(one_pass, options), report);
        } else {
          judge_run<T>(declared, one_pass, written, nullptr, false, options, report);
        }
      });
}

template <typename T>
Verdict verify_cheaply(const Declaration& declared, const Problem<T>& problem,
                       const JudgedAnswer<T>& answer, const VerifyOptions& options) {
  return judge_form_and(
      declared, problem, answer, options, [&](const auto& written, Report& report) {
        const PointSelection points = some_points(problem, options);
        if (declared.approximate_within > 0.0) {
          judge_approximate_step(declared, problem, written, points, report);
        } else {
          judge_exact_step(declared, problem, written, points, options.seed, report);
        }
      });
}

template <typename T>
Verdict verify_same(const Declaration& declared, const Problem<T>& problem,
                    const JudgedAnswer<T>& recorded, const JudgedAnswer<T>& timed,
                    const VerifyOptions& options) {
  Report of_recorded;
  if (!has_right_form(declared.family == Family::fcm, problem, without_unwritten(problem, recorded),
                      of_recorded)) {
    throw std::invalid_argument("verify_same: the recorded answer has not the right form");
  }
  return judge_form_and(
      declared, problem, timed, options, [&](const auto& written, Report& report) {
        const JudgedAnswer<T> expected = without_unwritten(problem, recorded);
        if (declared.deterministic) {
          report("same bits", other_bits(expected, written));
        } else {
          report("same objective",
                 other_objective(declared, problem, expected, written, report.verdict));
        }
      });
}

template Verdict verify_answer(const Declaration&, const Problem<float>&,
                               const JudgedAnswer<float>&, const OracleRun&, const VerifyOptions&);
template Verdict verify_answer(const Declaration&, const Problem<double>&,
                               const JudgedAnswer<double>&, const OracleRun&, const VerifyOptions&);
template Verdict verify_consistency(const Declaration&, const Problem<float>&,
                                    const JudgedAnswer<float>&, const VerifyOptions&);
template Verdict verify_consistency(const Declaration&, const Problem<double>&,
                                    const JudgedAnswer<double>&, const VerifyOptions&);
template Verdict verify_one_step(const Declaration&, const Problem<float>&,
                                 const JudgedAnswer<float>&, const VerifyOptions&);
template Verdict verify_one_step(const Declaration&, const Problem<double>&,
                                 const JudgedAnswer<double>&, const VerifyOptions&);
template Verdict verify_cheaply(const Declaration&, const Problem<float>&,
                                const JudgedAnswer<float>&, const VerifyOptions&);
template Verdict verify_cheaply(const Declaration&, const Problem<double>&,
                                const JudgedAnswer<double>&, const VerifyOptions&);
template Verdict verify_same(const Declaration&, const Problem<float>&, const JudgedAnswer<float>&,
                             const JudgedAnswer<float>&, const VerifyOptions&);
template Verdict verify_same(const Declaration&, const Problem<double>&,
                             const JudgedAnswer<double>&, const JudgedAnswer<double>&,
                             const VerifyOptions&);

} // namespace clusterbench

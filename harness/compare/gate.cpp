#include "harness/compare/gate.hpp"

#include "datasets/errors.hpp"
#include "harness/compare/answer_check.hpp"
#include "harness/problem/cell_choice.hpp"
#include "harness/run/statistics.hpp"

#include <cmath>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A verdict that ends a cell before its pairs do.
struct CellEnd {
  std::string verdict;
  std::string message;
};

CellEnd end_of(const PaceFailure& failure) {
  if (failure.status() == "protocol") {
    throw InputError(failure.what());
  }
  const bool of_base = std::string_view(failure.what()).starts_with("base: ");
  return {failure.status() == "interrupted" ? "interrupted"
          : of_base                         ? "not_compared"
                                            : "failed",
          fmt::format("{} ({})", failure.what(), failure.status())};
}

} // namespace

ExitCode exit_code_of(const GatedCell& cell) {
  static const std::map<std::string, ExitCode> kCodes = {{"same", ExitCode::ok},
                                                         {"not_compared", ExitCode::ok},
                                                         {"slower", ExitCode::regression},
                                                         {"inconclusive", ExitCode::inconclusive},
                                                         {"wrong", ExitCode::wrong_result},
                                                         {"failed", ExitCode::cells_missing},
                                                         {"interrupted", ExitCode::interrupted}};
  return kCodes.at(cell.verdict);
}

// A pair's figure is the median of its turns' ratios. Where the machine was hardly ever quiet all turns
// count: the two sides are still disturbed alike, and the noise shows in the pairs.
void Gate::reckon(Batch& batch) const {
  batch.log_ratios.clear();
  for (const PairSamples& pair : batch.pairs) {
    if (!pair.log_ratios.empty()) {
      batch.log_ratios.push_back(median(pair.log_ratios));
    }
  }
  batch.disturbed = batch.pairs.size() - batch.log_ratios.size();
  constexpr std::size_t kToleratedPairs = 5;
  if (batch.disturbed > std::max(kToleratedPairs, batch.pairs.size() / 2)) {
    batch.log_ratios.clear();
    for (const PairSamples& pair : batch.pairs) {
      std::vector<double> all = pair.log_ratios;
      all.insert(all.end(), pair.disturbed.begin(), pair.disturbed.end());
      batch.log_ratios.push_back(median(all));
    }
  }
}

template <typename T>
Gate::Batch Gate::run_batch(PairOfBuilds& builds, const SequentialOptions& test,
                            const std::function<void(const PairSamples&)>& check) {
  const auto start = Clock::now();
  Batch batch;
  while (batch.decision == GateDecision::more) {
    PairSamples pair = builds.measure(batch.pairs.size());
    check(pair);
    batch.pairs.push_back(std::move(pair));
    reckon(batch);
    const bool last = batch.log_ratios.size() >= test.most_pairs ||
                      batch.pairs.size() >= 2 * test.most_pairs ||
                      seconds_since(start) > options_.cell_seconds;
    if (last || is_look(batch.log_ratios.size(), test)) {
      batch.decision = decide(batch.log_ratios, test, last);
    }
  }
  return batch;
}

template <typename T>
GatedCell Gate::run_typed(const CellSpec& cell, const RegisteredVariant& variant,
                          const Workload& work) {
  GatedCell gated;
  gated.name = cell_name(cell);
  gated.iterations = work.stop.max_iterations;
  const auto start = Clock::now();
  SequentialOptions test = options_.test;
  test.noise_floor = options_.floor.of(gated.name);
  PairOfBuilds builds(options_.executables, cell.variant, variant.meta.family, work,
                      options_.threads, options_.pair);
  AnswerCheck<T> answers(variant.meta, work, options_.threads, oracles_);
  const auto check = [&](const PairSamples& pair) {
    for (const Side side : kSides) {
      const PacedAnswer& answer = pair.answers[index(side)];
      const std::string wrong = answers.complaint(side, answer, builds.result<T>(side));
      if (!wrong.empty()) {
        throw CellEnd{side == Side::base ? "not_compared" : "wrong",
                      (side == Side::base ? "the base's answer is wrong: " : "") + wrong};
      }
    }
  };
  try {
    Batch batch = run_batch<T>(builds, test, check);
    if (batch.decision == GateDecision::slower) {
      gated.first_alarm = batch.log_ratios;
      batch = run_batch<T>(builds, test, check);
      if (batch.decision == GateDecision::same) {
        gated.message = "a first batch said slower, a second one did not confirm it";
      }
    }
    gated.verdict = batch.decision == GateDecision::slower ? "slower"
                    : batch.decision == GateDecision::same ? "same"
                                                           : "inconclusive";
    gated.log_ratios = batch.log_ratios;
    gated.disturbed_pairs = batch.disturbed;
    if (batch.log_ratios.size() >= 2) {
      const PairEstimate estimate = estimate_pairs(batch.log_ratios);
      gated.ratio = std::exp(estimate.log_ratio);
      gated.bounds = bounds_of(estimate, batch.log_ratios.size(), test);
    }
    gated.base_ms = gated.new_ms = std::numeric_limits<double>::infinity();
    for (const PairSamples& pair : batch.pairs) {
      gated.base_ms = std::min(gated.base_ms, pair.shortest_ms[0]);
      gated.new_ms = std::min(gated.new_ms, pair.shortest_ms[1]);
    }
  } catch (const CellEnd& end) {
    gated.verdict = end.verdict;
    gated.message = end.message;
  } catch (const PaceFailure& failure) {
    const CellEnd end = end_of(failure);
    gated.verdict = end.verdict;
    gated.message = end.message;
  }
  gated.seconds = seconds_since(start);
  return gated;
}

// The cell with as many iterations as fill a turn. The shorter the turns, the closer together are the
// two sides' runs, and the more of the machine's noise do they have in common.
Workload Gate::short_work(const CellSpec& cell, const RegisteredVariant& variant) {
  Workload work = builder_.build(cell.problem, cell.precision);
  const double run_ms = PairOfBuilds(options_.executables, cell.variant, variant.meta.family, work,
                                     options_.threads, options_.pair)
                            .run_ms();
  if (run_ms <= options_.pair.turn_ms || options_.whole_runs) {
    return work;
  }
  const auto iterations = static_cast<double>(cell.problem.stop.max_iterations);
  ProblemSpec shorter = cell.problem;
  shorter.stop.max_iterations = static_cast<std::size_t>(
      std::max(1.0, std::floor(iterations * options_.pair.turn_ms / run_ms)));
  return builder_.build(shorter, cell.precision);
}

GatedCell Gate::run(const CellSpec& cell) {
  const RegisteredVariant* variant = find_variant(cell.variant);
  if (variant == nullptr) {
    GatedCell gated;
    gated.verdict = "failed";
    gated.name = cell_name(cell);
    gated.message = "this program does not know the variant, whose answer it has to judge";
    return gated;
  }
  if (variant->meta.launch != Launch::process) {
    GatedCell gated;
    gated.verdict = "not_compared";
    gated.name = cell_name(cell);
    gated.message = "a program of its own; the gate compares variants that a build holds";
    return gated;
  }
  try {
    const Workload work = short_work(cell, *variant);
    return work.precision == Precision::f32 ? run_typed<float>(cell, *variant, work)
                                            : run_typed<double>(cell, *variant, work);
  } catch (const PaceFailure& failure) {
    GatedCell gated;
    gated.name = cell_name(cell);
    const CellEnd end = end_of(failure);
    gated.verdict = end.verdict;
    gated.message = end.message;
    return gated;
  }
}

double Gate::calibrate(const CellSpec& cell, std::size_t pairs) {
  const RegisteredVariant* variant = find_variant(cell.variant);
  if (variant == nullptr) {
    throw InputError(fmt::format("{}: unknown variant", cell_name(cell)));
  }
  const Workload work = short_work(cell, *variant);
  PairOfBuilds builds(options_.executables, cell.variant, variant->meta.family, work,
                      options_.threads, options_.pair);
  Batch batch;
  try {
    for (std::size_t i = 0; i < pairs; ++i) {
      batch.pairs.push_back(builds.measure(i));
    }
  } catch (const PaceFailure& failure) {
    throw InputError(fmt::format("{}: {}", cell_name(cell), failure.what()));
  }
  reckon(batch);
  if (batch.log_ratios.size() < 2) {
    throw InputError(fmt::format("{}: the machine was never quiet", cell_name(cell)));
  }
  const PairEstimate estimate = estimate_pairs(batch.log_ratios);
  return estimate.standard_error * std::sqrt(static_cast<double>(batch.log_ratios.size()));
}

} // namespace clusterbench

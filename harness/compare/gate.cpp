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
struct EarlyVerdict {
  std::string verdict;
  std::string message;
};

std::string explained(const PaceFailure& failure) {
  return fmt::format("{} ({})", failure.what(), failure.status());
}

const RegisteredVariant& known_variant(const CellSpec& cell) {
  const RegisteredVariant* variant = find_variant(cell.variant);
  if (variant == nullptr) {
    throw InputError(fmt::format("{}: unknown variant", cell_name(cell)));
  }
  return *variant;
}

} // namespace

bool any_compared(const std::vector<std::string>& verdicts) {
  return std::ranges::any_of(verdicts, [](const std::string& verdict) {
    return verdict == "same" || verdict == "slower" || verdict == "inconclusive";
  });
}

ExitCode exit_code_of(const std::vector<std::string>& verdicts) {
  static const std::map<std::string, ExitCode> kCodes = {{"same", ExitCode::ok},
                                                         {"new", ExitCode::ok},
                                                         {"absent", ExitCode::ok},
                                                         {"not_compared", ExitCode::ok},
                                                         {"slower", ExitCode::regression},
                                                         {"inconclusive", ExitCode::inconclusive},
                                                         {"wrong", ExitCode::wrong_result},
                                                         {"failed", ExitCode::cells_missing},
                                                         {"interrupted", ExitCode::interrupted}};
  const auto has = [&](const char* verdict) {
    return std::ranges::find(verdicts, verdict) != verdicts.end();
  };
  const bool all_is_new = has("new") && !has("not_compared"); // but for what neither build has
  ExitCode code = any_compared(verdicts) || all_is_new ? ExitCode::ok : ExitCode::cells_missing;
  for (const std::string& verdict : verdicts) {
    code = graver(code, kCodes.at(verdict));
  }
  return code;
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
    batch.ended = batch.log_ratios.size() >= test.most_pairs ||
                  batch.pairs.size() >= 2 * test.most_pairs ||
                  seconds_since(start) > options_.cell_seconds;
    if (batch.ended || is_look(batch.log_ratios.size(), test)) {
      batch.decision = decide(batch.log_ratios, test, batch.ended);
    }
  }
  return batch;
}

// Pairs of both builds' runs, until they tell.
template <typename T>
void Gate::compare(const CellSpec& cell, const RegisteredVariant& variant, GatedCell& gated) {
  const Workload work = short_work(cell, variant, Side::base);
  gated.iterations = work.stop.max_iterations;
  SequentialOptions test = options_.test;
  test.noise_floor = options_.floor.of(gated.name);
  PairOfBuilds builds(options_.executables, cell.variant, variant.meta.family, work,
                      options_.threads, options_.pair);
  AnswerCheck<T> answers(variant.meta, work, options_.threads, oracles_, builds);
  const auto check = [&](const PairSamples& pair) {
    std::array<std::string, 2> wrong;
    for (const Side side : kSides) {
      wrong[index(side)] = answers.complaint(side, pair.answers[index(side)]);
    }
    if (!wrong[index(Side::fresh)].empty()) {
      throw EarlyVerdict{"wrong", wrong[index(Side::fresh)]};
    }
    if (!wrong[index(Side::base)].empty()) {
      throw EarlyVerdict{"not_compared", "the base's answer is wrong: " + wrong[index(Side::base)]};
    }
  };
  Batch batch = run_batch<T>(builds, test, check);
  if (batch.decision == GateDecision::slower) {
    gated.first_alarm = batch.log_ratios;
    test = confirming(test, options_.cells);
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
    gated.bounds = bounds_of(estimate, batch.log_ratios.size(), test, batch.ended);
  }
  gated.base_ms = gated.new_ms = std::numeric_limits<double>::infinity();
  for (const PairSamples& pair : batch.pairs) {
    gated.base_ms = std::min(gated.base_ms, pair.shortest_ms[0]);
    gated.new_ms = std::min(gated.new_ms, pair.shortest_ms[1]);
  }
}

// The base gives nothing to compare with, but the new build's answer has to be right all the same.
template <typename T>
void Gate::run_new_alone(const CellSpec& cell, const RegisteredVariant& variant,
                         const SideFailure& of_base, GatedCell& gated) {
  const auto end = [&](const std::string& verdict, const std::string& of_new) {
    gated.verdict = verdict;
    gated.message = fmt::format("{}; {}", explained(of_base), of_new);
  };
  try {
    const Workload work = short_work(cell, variant, Side::fresh);
    gated.iterations = work.stop.max_iterations;
    PairOfBuilds builds(options_.executables, cell.variant, variant.meta.family, work,
                        options_.threads, options_.pair);
    AnswerCheck<T> answers(variant.meta, work, options_.threads, oracles_, builds);
    constexpr int kProcesses = 2; // a deterministic variant gives the same bits in both
    for (int i = 0; i < kProcesses; ++i) {
      const PacedAnswer answer = builds.answer(Side::fresh);
      const std::string wrong = answers.complaint(Side::fresh, answer);
      if (!wrong.empty()) {
        return end("wrong", "new: " + wrong);
      }
    }
    if (!answers.judges_values()) {
      return end("not_compared", "new: too large a cell for its answer to be verified");
    }
    end(lacks_the_cell(of_base) ? "new" : "not_compared", "the new build's answer is right");
  } catch (const SideFailure& of_new) {
    if (of_new.status() == "interrupted") {
      throw;
    }
    const std::string without_new = lacks_the_cell(of_base) ? "absent" : "not_compared";
    end(lacks_the_cell(of_new) ? without_new : "failed", explained(of_new));
  }
}

template <typename T>
GatedCell Gate::run_typed(const CellSpec& cell, const RegisteredVariant& variant) {
  GatedCell gated;
  gated.name = cell_name(cell);
  const auto start = Clock::now();
  try {
    try {
      compare<T>(cell, variant, gated);
    } catch (const SideFailure& failure) {
      if (failure.status() == "interrupted") {
        throw;
      }
      if (failure.side() == Side::fresh) {
        throw EarlyVerdict{"failed", explained(failure)};
      }
      run_new_alone<T>(cell, variant, failure, gated);
    }
  } catch (const EarlyVerdict& end) {
    gated.verdict = end.verdict;
    gated.message = end.message;
  } catch (const PaceFailure& interrupted) {
    gated.verdict = interrupted.status();
  }
  gated.seconds = seconds_since(start);
  return gated;
}

// The cell with as many iterations as fill a turn of the side. The shorter the turns, the closer
// together are the two sides' runs, and the more of the machine's noise do they have in common. But a
// first pass knows nothing yet: what variants skip, they skip in the passes after it.
Workload Gate::short_work(const CellSpec& cell, const RegisteredVariant& variant, Side side) {
  Workload work = builder_.build(cell.problem, cell.precision);
  const double run_ms = PairOfBuilds(options_.executables, cell.variant, variant.meta.family, work,
                                     options_.threads, options_.pair)
                            .run_ms(side);
  if (run_ms <= options_.pair.turn_ms || options_.whole_runs) {
    return work;
  }
  constexpr std::size_t kLeastIterations = 4;
  const std::size_t all = cell.problem.stop.max_iterations;
  const auto filling =
      static_cast<std::size_t>(static_cast<double>(all) * options_.pair.turn_ms / run_ms);
  ProblemSpec shorter = cell.problem;
  shorter.stop.max_iterations = std::min(all, std::max(filling, kLeastIterations));
  return builder_.build(shorter, cell.precision);
}

GatedCell Gate::run(const CellSpec& cell) {
  const RegisteredVariant& variant = known_variant(cell);
  return cell.precision == Precision::f32 ? run_typed<float>(cell, variant)
                                          : run_typed<double>(cell, variant);
}

double Gate::calibrate(const CellSpec& cell, std::size_t pairs) {
  const RegisteredVariant& variant = known_variant(cell);
  const Workload work = short_work(cell, variant, Side::base);
  PairOfBuilds builds(options_.executables, cell.variant, variant.meta.family, work,
                      options_.threads, options_.pair);
  Batch batch;
  for (std::size_t i = 0; i < pairs; ++i) {
    batch.pairs.push_back(builds.measure(i));
  }
  reckon(batch);
  const PairEstimate estimate = estimate_pairs(batch.log_ratios);
  return estimate.standard_error * std::sqrt(static_cast<double>(batch.log_ratios.size()));
}

} // namespace clusterbench

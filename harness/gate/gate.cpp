#include "harness/gate/gate.hpp"

#include "datasets/errors.hpp"
#include "harness/gate/answer_check.hpp"
#include "harness/gate/build_modules.hpp"
#include "harness/gate/suspicion.hpp"
#include "harness/judge/interruption.hpp"
#include "harness/judge/oracle_cache.hpp"
#include "harness/ledger/statistics.hpp"
#include "harness/machine/measured_limits.hpp"

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

std::string explained(const WorkerFailure& failure) {
  return fmt::format("{} ({})", failure.what(), failure.status());
}

// What a cell is that the base does not run, and whose answer of the new build is not wrong.
std::string verdict_without(const SideFailure& of_base, const char* where_it_lacks_the_cell) {
  return is_damage(of_base)        ? "failed"
         : lacks_the_cell(of_base) ? where_it_lacks_the_cell
                                   : "not_compared";
}

const KnownVariant& known_variant(const CellSpec& cell) {
  const KnownVariant* variant = find_variant(cell.variant);
  if (variant == nullptr) {
    throw InputError(fmt::format("{}: unknown variant", cell_name(cell)));
  }
  return *variant;
}

} // namespace

bool any_compared(const std::vector<std::string>& verdicts) {
  return std::ranges::any_of(verdicts, [](const std::string& verdict) {
    return verdict == "same" || verdict == "slower" || verdict == "inconclusive" ||
           verdict == "suspicious";
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
                                                         {"suspicious", ExitCode::wrong_result},
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

Gate::Gate(GateOptions options) : options_(std::move(options)) {
  for (const std::filesystem::path& build : options_.builds) {
    variants_of_build(build); // found now, not when the first cells have been measured
  }
}

// A pair's figure is the median of its turns' ratios. Where the machine was hardly ever quiet all
// turns count: the two sides are still disturbed alike, and the noise shows in the pairs.
void Gate::reckon(Batch& batch) const {
  batch.log_ratios.clear();
  for (const PairFigures& pair : batch.pairs) {
    if (!pair.log_ratios.empty()) {
      batch.log_ratios.push_back(median(pair.log_ratios));
    }
  }
  batch.disturbed = batch.pairs.size() - batch.log_ratios.size();
  constexpr std::size_t kToleratedPairs = 5;
  if (batch.disturbed > std::max(kToleratedPairs, batch.pairs.size() / 2)) {
    batch.log_ratios.clear();
    for (const PairFigures& pair : batch.pairs) {
      std::vector<double> all = pair.log_ratios;
      all.insert(all.end(), pair.disturbed.begin(), pair.disturbed.end());
      batch.log_ratios.push_back(median(all));
    }
  }
}

template <typename T>
Gate::Batch Gate::run_batch(PairOfBuilds<T>& builds, const SequentialOptions& test,
                            const std::function<void(const PairSamples<T>&)>& check) {
  const auto start = Clock::now();
  Batch batch;
  while (batch.decision == GateDecision::more) {
    const PairSamples<T> pair = builds.measure(batch.pairs.size());
    check(pair);
    batch.pairs.push_back(pair); // its figures; the answers have been judged
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
void Gate::compare(const CellSpec& cell, const KnownVariant& variant, GatedCell& gated) {
  const Workload work = short_work<T>(cell, variant, Side::base);
  gated.iterations = work.stop.max_iterations;
  SequentialOptions test = options_.test;
  test.noise_floor = options_.floor.of(gated.name);
  const CellTask<T> timed = task<T>(variant, work);
  PairOfBuilds<T> builds(options_.builds, timed, options_.pair);
  AnswerCheck<T> answers(timed, oracles_);
  std::size_t passes = gated.iterations; // the fewest that were seen
  const auto check = [&](const PairSamples<T>& pair) {
    passes = std::min(passes, pair.newest[index(Side::fresh)].iterations);
    std::array<std::string, 2> wrong;
    for (const Side side : kSides) {
      wrong[index(side)] = answers.complaint(pair, side);
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
  for (const PairFigures& pair : batch.pairs) {
    gated.base_ms = std::min(gated.base_ms, pair.shortest_ms[0]);
    gated.new_ms = std::min(gated.new_ms, pair.shortest_ms[1]);
  }
  if (const std::string why = suspicion(variant, work, passes, gated); !why.empty()) {
    gated.verdict = "suspicious";
    gated.message = why;
  }
}

// Answers are right, and yet the times cannot be.
std::string Gate::suspicion(const KnownVariant& variant, const Workload& work, std::size_t passes,
                            const GatedCell& gated) {
  const std::string ratio = unbelievable_ratio(gated.base_ms, gated.new_ms, "ms");
  if (!ratio.empty() || gated.base_ms < kTimesFasterToProbe * gated.new_ms) {
    return ratio;
  }
  if (!limits_) {
    limits_ = measure_limits(options_.threads);
  }
  return unbelievable_time({{"samples_ms", nlohmann::json::array({gated.new_ms})},
                            {"sample_iterations", nlohmann::json::array({passes})},
                            {"device", to_string(variant.meta.device)},
                            {"threads", options_.threads},
                            {"multiplier", to_string(variant.meta.multiplier)},
                            {"precision", to_string(work.precision)},
                            {"problem",
                             {{"family", to_string(work.spec.family)},
                              {"n", work.n},
                              {"d", work.d},
                              {"k", work.spec.k}}}},
                           *limits_);
}

// The base gives nothing to compare with, but the new build's answer has to be right all the same.
template <typename T>
void Gate::run_new_alone(const CellSpec& cell, const KnownVariant& variant,
                         const SideFailure& of_base, GatedCell& gated) {
  const auto end = [&](const std::string& verdict, const std::string& of_new) {
    gated.verdict = verdict;
    gated.message = fmt::format("{}; {}", explained(of_base), of_new);
  };
  try {
    const Workload work = short_work<T>(cell, variant, Side::fresh);
    gated.iterations = work.stop.max_iterations;
    const CellTask<T> timed = task<T>(variant, work);
    const PairOfBuilds<T> builds(options_.builds, timed, options_.pair);
    AnswerCheck<T> answers(timed, oracles_);
    constexpr int kProcesses = 2; // a deterministic variant gives the same bits in both
    for (int i = 0; i < kProcesses; ++i) {
      const std::string wrong = answers.complaint(builds.answers(Side::fresh), Side::fresh);
      if (!wrong.empty()) {
        return end("wrong", "new: " + wrong);
      }
    }
    if (!answers.judges_values()) {
      return end(verdict_without(of_base, "not_compared"),
                 "new: too large a cell for its answer to be verified");
    }
    end(verdict_without(of_base, "new"), "the new build's answer is right");
  } catch (const SideFailure& of_new) {
    if (of_new.status() == "interrupted") {
      throw;
    }
    end(lacks_the_cell(of_new) ? verdict_without(of_base, "absent") : "failed", explained(of_new));
  }
}

template <typename T>
GatedCell Gate::run_typed(const CellSpec& cell, const KnownVariant& variant) {
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
  } catch (const WorkerFailure& interrupted) {
    gated.verdict = interrupted.status();
  } catch (const Interrupted&) { // while an answer was judged, say
    gated.verdict = "interrupted";
  }
  gated.seconds = seconds_since(start);
  return gated;
}

// The cell with as many iterations as fill a turn of the side. The shorter the turns, the closer
// together are the two sides' runs, and the more of the machine's noise do they have in common. But
// a first pass knows nothing yet: what variants skip, they skip in the passes after it.
template <typename T>
Workload Gate::short_work(const CellSpec& cell, const KnownVariant& variant, Side side) {
  Workload work = builder_.build(cell.problem, cell.precision);
  const CellTask<T> timed = task<T>(variant, work);
  const double run_ms = PairOfBuilds<T>(options_.builds, timed, options_.pair).run_ms(side);
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
  const KnownVariant& variant = known_variant(cell);
  return cell.precision == Precision::f32 ? run_typed<float>(cell, variant)
                                          : run_typed<double>(cell, variant);
}

// Every process takes its first run, and at least three turns of one run or more are taken.
template <typename T>
CellTask<T> Gate::task(const KnownVariant& variant, const Workload& work) const {
  constexpr std::size_t kLeastRuns = 2;
  WorkerOptions options;
  options.threads = options_.threads;
  options.timeout = options_.pair.timeout;
  options.hidden = {oracle_cache_folder()};
  return make_cell_task<T>(variant, work, starts_seed_, kLeastRuns, std::move(options));
}

template <typename T>
double Gate::calibrate_typed(const CellSpec& cell, const KnownVariant& variant, std::size_t pairs) {
  const Workload work = short_work<T>(cell, variant, Side::base);
  const CellTask<T> timed = task<T>(variant, work);
  PairOfBuilds<T> builds(options_.builds, timed, options_.pair);
  Batch batch;
  for (std::size_t i = 0; i < pairs; ++i) {
    batch.pairs.push_back(builds.measure(i));
  }
  reckon(batch);
  const PairEstimate estimate = estimate_pairs(batch.log_ratios);
  return estimate.standard_error * std::sqrt(static_cast<double>(batch.log_ratios.size()));
}

double Gate::calibrate(const CellSpec& cell, std::size_t pairs) {
  const KnownVariant& variant = known_variant(cell);
  return cell.precision == Precision::f32 ? calibrate_typed<float>(cell, variant, pairs)
                                          : calibrate_typed<double>(cell, variant, pairs);
}

} // namespace clusterbench

// Two builds on one machine, cell by cell: did the new one become slower?
#pragma once

#include "harness/compare/noise_floor.hpp"
#include "harness/compare/pair_of_builds.hpp"
#include "harness/compare/sequential_test.hpp"
#include "harness/exit_codes.hpp"
#include "harness/judge/oracle.hpp"
#include "harness/problem/table.hpp"

#include <functional>

namespace clusterbench {

struct GateOptions {
  std::array<std::filesystem::path, 2> executables; ///< base, new
  int threads = 1;
  SequentialOptions test; ///< its noise floor is replaced by the cell's
  NoiseFloor floor;
  double cell_seconds = 20.0; ///< after which a cell's batch must come to an end
  bool whole_runs = false;    ///< do not cut runs short
  PairOptions pair;
};

struct GatedCell {
  /// `slower`: two independent batches of pairs said so. `same`: a slowdown of the minimum effect is
  /// excluded. `inconclusive`: neither. `wrong`: the new build's answer is wrong. `failed`: the new
  /// build cannot run the cell. `not_compared`: the base cannot, or its answer is wrong.
  std::string verdict;
  std::string name;
  std::string message;
  std::vector<double> log_ratios;     ///< of the batch that decided, one per pair
  std::vector<double> first_alarm;    ///< of the first batch, if it said slower
  double ratio = 1.0;                 ///< new / base
  Bounds bounds;                      ///< of log(ratio), one-sided 99 %
  double base_ms = 0.0, new_ms = 0.0; ///< shortest runs
  std::size_t iterations = 0;         ///< bound of a run, cut to the length of a turn
  std::size_t disturbed_pairs = 0;
  double seconds = 0.0;
};

ExitCode exit_code_of(const GatedCell& cell);

/// Runs pairs of one cell after another. Equal data of consecutive cells are loaded once.
class Gate {
public:
  explicit Gate(GateOptions options) : options_(std::move(options)) {}

  /// Throws datasets::InputError if a build does not speak the gate's protocol or the cell is bad.
  GatedCell run(const CellSpec& cell);

  /// The standard deviation of `pairs` pairs' log ratio, robust against a few wild ones.
  double calibrate(const CellSpec& cell, std::size_t pairs);

private:
  struct Batch {
    GateDecision decision = GateDecision::more;
    std::vector<PairSamples> pairs;
    std::vector<double> log_ratios;
    std::size_t disturbed = 0;
  };
  Workload short_work(const CellSpec& cell, const RegisteredVariant& variant);
  template <typename T>
  GatedCell run_typed(const CellSpec& cell, const RegisteredVariant& variant, const Workload& work);
  template <typename T>
  Batch run_batch(PairOfBuilds& builds, const SequentialOptions& test,
                  const std::function<void(const PairSamples&)>& check);
  void reckon(Batch& batch) const;

  GateOptions options_;
  WorkloadBuilder builder_;
  std::map<std::string, OracleRun> oracles_; ///< by problem hash
};

} // namespace clusterbench

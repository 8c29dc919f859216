// Two builds on one machine, cell by cell: did the new one become slower?
#pragma once

#include "harness/campaign/oracles.hpp"
#include "harness/gate/noise_floor.hpp"
#include "harness/gate/pair_of_builds.hpp"
#include "harness/gate/sequential_test.hpp"
#include "harness/problem/table.hpp"
#include "harness/system/exit_codes.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

namespace clusterbench {

struct GateOptions {
  std::array<std::filesystem::path, 2> builds; ///< folders: base, new
  int threads = 1;
  SequentialOptions test; ///< its noise floor is replaced by the cell's
  NoiseFloor floor;
  std::size_t cells = 1; ///< of the gate: the more, the surer an alarm's confirmation has to be
  double cell_seconds = 40.0; ///< after which a cell's batch must come to an end
  bool whole_runs = false;    ///< do not cut runs short
  PairOptions pair;
};

struct GatedCell {
  /// `slower`: two independent batches of pairs said so. `same`: a slowdown of the minimum effect
  /// is excluded. `inconclusive`: neither. `suspicious`: the new build is faster than any bound
  /// allows (suspicion.hpp). `wrong`: the new build's answer is wrong. `failed`: the new build
  /// crashes, or cannot run a cell that the base can; or a build cannot load a module that it has.
  /// Where the base gives nothing to compare with, the new build runs alone and is verified. `new`:
  /// it is right, and the base does not have the cell. `absent`: neither has it. `not_compared`:
  /// the base crashed or is wrong.
  std::string verdict;
  std::string name;
  std::string message;
  std::vector<double> log_ratios;     ///< of the batch that decided, one per pair
  std::vector<double> first_alarm;    ///< of the first batch, if it said slower
  double ratio = 1.0;                 ///< new / base
  Bounds bounds;                      ///< of log(ratio), as wide as all looks together ask for
  double base_ms = 0.0, new_ms = 0.0; ///< shortest runs
  std::size_t iterations = 0; ///< bound of a run, cut to the length of a turn, but not below 4
  std::size_t disturbed_pairs = 0;
  double seconds = 0.0;
};

/// The gravest of the cells'; ExitCode::cells_missing at least where no cell was compared, unless
/// all that the builds have are `new`.
ExitCode exit_code_of(const std::vector<std::string>& verdicts);

/// Whether one of the cells gave two builds to compare.
bool any_compared(const std::vector<std::string>& verdicts);

/// Runs pairs of one cell after another. Equal data of consecutive cells are loaded once.
class Gate {
public:
  /// Throws datasets::InputError for a build without its modules.
  explicit Gate(GateOptions options);

  /// Throws datasets::InputError if the cell is bad.
  GatedCell run(const CellSpec& cell);

  /// The standard deviation of `pairs` pairs' log ratio, robust against a few wild ones. Throws
  /// WorkerFailure.
  double calibrate(const CellSpec& cell, std::size_t pairs);

private:
  struct Batch {
    GateDecision decision = GateDecision::more;
    std::vector<PairFigures> pairs;
    std::vector<double> log_ratios;
    std::size_t disturbed = 0;
    bool ended = false; ///< by the number of pairs or the time: its last look was one
  };
  template <typename T>
  CellTask<T> task(const KnownVariant& variant, const Workload& work) const;
  template <typename T>
  Workload short_work(const CellSpec& cell, const KnownVariant& variant, Side side);
  template <typename T>
  void compare(const CellSpec& cell, const KnownVariant& variant, GatedCell& gated);
  template <typename T>
  void run_new_alone(const CellSpec& cell, const KnownVariant& variant, const SideFailure& of_base,
                     GatedCell& gated);
  std::string suspicion(const KnownVariant& variant, const Workload& work, std::size_t passes,
                        const GatedCell& gated);
  template <typename T>
  GatedCell run_typed(const CellSpec& cell, const KnownVariant& variant);
  template <typename T>
  double calibrate_typed(const CellSpec& cell, const KnownVariant& variant, std::size_t pairs);
  template <typename T>
  Batch run_batch(PairOfBuilds<T>& builds, const SequentialOptions& test,
                  const std::function<void(const PairSamples<T>&)>& check);
  void reckon(Batch& batch) const;

  GateOptions options_;
  WorkloadBuilder builder_;
  Oracles oracles_;
  std::optional<nlohmann::json> limits_;               ///< of the machine, once they were asked for
  std::uint64_t starts_seed_ = std::random_device{}(); ///< the same starts for both builds
};

} // namespace clusterbench

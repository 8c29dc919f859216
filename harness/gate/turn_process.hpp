// One process of one build, which runs a cell a turn at a time.
#pragma once

#include "harness/campaign/cell_memory.hpp"
#include "harness/campaign/cell_task.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/worker/worker.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// A turn of runs.
struct Turn {
  double shortest_ms = 0.0; ///< of its runs
  double elapsed_ms = 0.0;
  double waited_ms = 0.0; ///< that its threads wanted a processor and had none, added up
  int competitors = 0;    ///< for its processors, the more of before and after
  GpuPace gpu;            ///< right after the last run; empty where it is not one of a GPU

  /// The processors were free, the threads had one but for 2 % of the time, and no heat or power
  /// limit slowed the GPU.
  bool undisturbed() const {
    return competitors == 0 && waited_ms <= 0.02 * elapsed_ms && gpu.slowed_by.empty();
  }
};

/// The build does not have the variant, or the variant refuses the problem: no fault of theirs.
inline bool lacks_the_cell(const WorkerFailure& failure) {
  return failure.status() == "unknown" || failure.status() == "refused";
}

/// The build has the variant, and its module cannot be loaded: nothing that a gate may pass over.
inline bool is_damage(const WorkerFailure& failure) {
  return failure.status() == "not_loaded";
}

/// Prepares the cell when it is made. Run i of every process starts from the cell's start i. Every
/// function throws WorkerFailure; `unknown`: the build does not have the variant; `not_loaded`: it
/// has it, and cannot load it. Throws datasets::InputError for a build without its modules.
template <typename T>
class TurnProcess {
public:
  /// build: its folder. Its threads get processors from number `processor` on, in the sense of a
  /// remainder. `wrapper` is a program with its arguments that runs the process, such as valgrind.
  TurnProcess(const std::filesystem::path& build, const CellTask<T>& cell,
              std::size_t processor = 0, std::vector<std::string> wrapper = {});

  /// A turn of `runs` begins when the processors are free, or when patience is at its end.
  Turn run(std::size_t runs, std::chrono::duration<double> patience);

  /// The answers so far that are to be judged in full, and the newest one.
  const std::vector<TakenAnswer<T>>& judged() const { return judged_; }
  const TakenAnswer<T>& newest() const { return newest_; }
  const ClockCheck& clock() const { return worker_->clock(); }

  /// Lets the process end by itself and returns what it printed last.
  std::string finish();

private:
  void load(const WorkerOptions& options);
  double run_once();

  const CellTask<T>& cell_;
  CellMemory<T> memory_;
  std::size_t processor_;
  std::unique_ptr<GpuPaceReader> gpu_; // that it runs on, or null
  std::optional<Worker> worker_;
  std::vector<TakenAnswer<T>> judged_;
  TakenAnswer<T> newest_;
  std::size_t runs_ = 0;
};

} // namespace clusterbench

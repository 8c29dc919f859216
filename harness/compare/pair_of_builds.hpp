// One cell in two builds, a process of each alive at the same time and taking turns.
#pragma once

#include "harness/compare/paced_process.hpp"
#include "harness/problem/workload.hpp"
#include "harness/run/job.hpp"

#include <array>

namespace clusterbench {

/// The two sides of a gate.
enum class Side { base, fresh };
inline constexpr std::array kSides = {Side::base, Side::fresh};
inline constexpr std::size_t index(Side side) {
  return static_cast<std::size_t>(side);
}
inline constexpr const char* name_of(Side side) {
  return side == Side::base ? "base" : "new";
}

/// What a process did not do, and whose process it was; the message begins with that.
class SideFailure : public PaceFailure {
public:
  SideFailure(Side side, const PaceFailure& failure)
      : PaceFailure(failure.status(), std::string(name_of(side)) + ": " + failure.what()),
        side_(side) {}
  Side side() const { return side_; }

private:
  Side side_;
};

struct PairOptions {
  double turn_ms = 3.0;                         ///< a turn is as many runs as fill it, at least one
  std::chrono::duration<double> enough{0.15};   ///< after which no further turn begins
  std::chrono::duration<double> patience{0.25}; ///< that a turn waits for free processors
  std::chrono::duration<double> timeout{60};    ///< for any answer of a process
};

/// What one pair of fresh processes measured.
struct PairSamples {
  /// Of the new side's times to the base's: every turn that nothing disturbed against the two beside
  /// it, so that a steady drift of the machine cancels.
  std::vector<double> log_ratios;
  std::vector<double> disturbed;       ///< the same of the other turns
  std::array<double, 2> shortest_ms{}; ///< by index(Side)
  std::array<PacedAnswer, 2> answers;
};

/// Measures pairs of one cell. The data are shared, not copied, with the processes.
class PairOfBuilds {
public:
  PairOfBuilds(std::array<std::filesystem::path, 2> executables, const std::string& variant,
               Family family, const Workload& work, int threads, PairOptions options);

  /// Starts a process of each build on the same processors and lets them take turns; a turn's time is
  /// that of its shortest run. `number` counts the pairs: the new side begins where it is odd, and
  /// every second pair gets the next processors. Throws SideFailure.
  PairSamples measure(std::size_t number);

  /// Starts a process of one side alone and lets it run once. Throws SideFailure.
  PacedAnswer answer(Side side) const;

  /// The answer that the side's last process handed over in measure() or answer().
  template <typename T>
  Result<T> result(Side side) {
    return slots_.slot<T>(results_[index(side)].span(), ResultSlots::kFirst);
  }

  /// Starts a process of one side alone and lets it run for at most `passes` passes: from the cell's
  /// initial state, or from that in the descriptor `initial`. Throws SideFailure.
  PacedAnswer passes(Side side, std::size_t passes, int initial = -1);

  /// The answer that the last process of passes() handed over.
  template <typename T>
  Result<T> result_of_passes() {
    return slots_.slot<T>(result_of_passes_.span(), ResultSlots::kFirst);
  }

  /// What the side's processes are asked for.
  PaceJob job(Side side) const;

  /// Milliseconds of the side's second run. Throws SideFailure.
  double run_ms(Side side) const;

private:
  PacedAnswer run_once(Side side, const PaceJob& job) const;

  std::array<std::filesystem::path, 2> executables_;
  PaceJob job_;
  PairOptions options_;
  ResultSlots slots_;
  std::array<SharedMemory, 2> results_;
  SharedMemory result_of_passes_; ///< made when it is needed
};

} // namespace clusterbench

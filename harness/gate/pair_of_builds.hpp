// One cell in two builds, a process of each alive at the same time and taking turns.
#pragma once

#include "harness/gate/turn_process.hpp"

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
class SideFailure : public WorkerFailure {
public:
  SideFailure(Side side, const WorkerFailure& failure)
      : WorkerFailure(failure.status(), std::string(name_of(side)) + ": " + failure.what() +
                                            (failure.last_words().empty() ? "" : "; it said: ") +
                                            failure.last_words()),
        side_(side) {}
  Side side() const { return side_; }

private:
  Side side_;
};

struct PairOptions {
  double turn_ms = 3.0;                         ///< a turn is as many runs as fill it, at least one
  std::chrono::duration<double> enough{0.15};   ///< after which no further turn begins
  std::chrono::duration<double> patience{0.25}; ///< that a turn waits for free processors
  std::chrono::duration<double> timeout{60};    ///< for a process
};

/// What one pair of fresh processes measured.
struct PairFigures {
  /// Of the new side's times to the base's: every turn that nothing disturbed against the two
  /// beside it, so that a steady drift of the machine cancels.
  std::vector<double> log_ratios;
  std::vector<double> disturbed;       ///< the same of the other turns
  std::array<double, 2> shortest_ms{}; ///< by index(Side)
};

/// The same, and what the two sides answered.
template <typename T>
struct PairSamples : PairFigures {
  std::array<std::vector<TakenAnswer<T>>, 2> judged; ///< answers to be judged in full
  std::array<TakenAnswer<T>, 2> newest;              ///< and others, cheaply
  std::array<std::string, 2> clock;                  ///< what is wrong with the sides' clocks
};

/// Measures pairs of one cell. The points are shared, not copied, with the processes.
template <typename T>
class PairOfBuilds {
public:
  /// builds: folders, by index(Side). The cell must outlive this.
  PairOfBuilds(std::array<std::filesystem::path, 2> builds, const CellTask<T>& cell,
               PairOptions options)
      : builds_(std::move(builds)), cell_(cell), options_(options) {}

  /// Starts a process of each build on the same processors and lets them take turns; a turn's time
  /// is that of its shortest run. `number` counts the pairs: the new side begins where it is odd,
  /// and every second pair gets the next processors. Throws SideFailure.
  PairSamples<T> measure(std::size_t number);

  /// Starts a process of one side alone and takes as many answers as are judged in full. Throws
  /// SideFailure.
  std::vector<TakenAnswer<T>> answers(Side side) const;

  /// Milliseconds of the side's second run. Throws SideFailure.
  double run_ms(Side side) const;

private:
  std::array<std::filesystem::path, 2> builds_;
  const CellTask<T>& cell_;
  PairOptions options_;
};

} // namespace clusterbench

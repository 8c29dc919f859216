// One cell in two builds, a process of each alive at the same time and taking turns.
#pragma once

#include "harness/compare/paced_process.hpp"
#include "harness/compare/yardstick.hpp"
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

struct PairOptions {
  double turn_ms = 12.0;       ///< a turn is as many runs as fill it, at least one
  std::size_t undisturbed = 2; ///< runs wanted of each side; quads of turns go on until then
  std::size_t most_quads = 8;  ///< but no longer
  std::chrono::duration<double> patience{0.1}; ///< that a turn waits for a quiet core
  std::chrono::duration<double> enough{0.8};   ///< after which no further quad begins
  std::chrono::duration<double> timeout{60};   ///< for any answer of a process
};

/// What one pair of fresh processes measured, in order.
struct PairSamples {
  std::array<std::vector<PacedSample>, 2> samples; ///< by index(Side)
  std::array<PacedAnswer, 2> answers;
};

/// What undisturbed runs look like: the shortest yardstick seen of each side, whose builds may have
/// compiled it differently.
class QuietLevel {
public:
  void learn(const PairSamples& pair);
  /// The most that the yardstick shows on a quiet core; 0 before anything is known.
  double most_ns(Side side) const { return kYardstickTolerance * shortest_ns_[index(side)]; }
  /// Whether the core was quiet and the threads had a processor but for 2 % of the time.
  bool undisturbed(Side side, const PacedSample& sample) const;

private:
  std::array<double, 2> shortest_ns_{};
};

/// Measures pairs of one cell. The data are shared, not copied, with the processes.
class PairOfBuilds {
public:
  PairOfBuilds(std::array<std::filesystem::path, 2> executables, const std::string& variant,
               Family family, const Workload& work, int threads, PairOptions options);

  /// Starts a process of each build and lets them take turns: A B B A, or B A A B where
  /// `fresh_first`, so that a steady drift of the machine hits both alike. The first run of a
  /// process and of a turn is dropped: caches are as the other side left them. Throws PaceFailure;
  /// its message begins with the side.
  PairSamples measure(bool fresh_first, const QuietLevel& quiet);

  /// The answer that the side's last process handed over in measure().
  template <typename T>
  Result<T> result(Side side) {
    return slots_.slot<T>(results_[index(side)].span(), ResultSlots::kFirst);
  }

  /// What the side's processes are asked for.
  PaceJob job(Side side) const;

private:
  std::array<std::filesystem::path, 2> executables_;
  PaceJob job_;
  PairOptions options_;
  ResultSlots slots_;
  std::array<SharedMemory, 2> results_;
};

} // namespace clusterbench

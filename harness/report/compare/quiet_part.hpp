// Of two campaigns' samples, those that met a quiet machine: around them the fixed piece of work was done
// as fast as around the fastest of both, and nobody else's task ran that had no core of its own.
#pragma once

#include "harness/ledger/ratio.hpp"

#include <array>
#include <cstddef>

namespace clusterbench {

/// Others make it take longer than this share of its shortest time: the machine is not quiet.
/// scripts/compare_calibration counts what comes of it.
inline constexpr double kQuietFixedWork = 1.03;
/// More tasks of others than these, in the mean of all looks: what sleeps nearly always may.
inline constexpr double kQuietOtherTasks = 0.05;
/// A process with fewer quiet samples tells nothing; one that has fewer samples at all needs all of them.
inline constexpr std::size_t kLeastQuiet = 3;

/// Costs of base and new from quiet samples, and how many there were. Where the fixed work was not
/// measured on both sides, all samples count. Rounds without kLeastQuiet are left out.
struct QuietPart {
  std::array<Costs, 2> costs;
  std::array<std::size_t, 2> quiet{}, samples{};

  QuietPart(const Costs& base, const Costs& fresh);
};

} // namespace clusterbench

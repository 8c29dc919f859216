// Performance profiles: Dolan and More, "Benchmarking optimization software with performance
// profiles", Mathematical Programming 91 (2002).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

/// For each solver the ratios of its time to the least time of any solver, ascending, over the
/// instances that it solves; an instance that it does not solve adds no ratio.
struct Profile {
  std::size_t instances = 0; ///< all of them, also those that nobody solves
  std::size_t unsolved = 0;  ///< those that nobody solves
  std::vector<std::vector<double>> ratios;

  /// Share of all instances that the solver solves within `tau` times the least time.
  double rho(std::size_t solver, double tau) const;
};

/// `times` is [instances][solvers], positive; infinite where a solver does not solve an instance.
/// Throws std::invalid_argument for rows of different lengths and for times that are not positive.
Profile performance_profile(const std::vector<std::vector<double>>& times);

} // namespace clusterbench

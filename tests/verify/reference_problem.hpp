// The problem of oracle_numbers.py, whose answers are known from elsewhere.
#pragma once

#include "harness/problem/problem.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

inline constexpr std::size_t kN = 200;
inline constexpr std::size_t kD = 3;
inline constexpr std::size_t kK = 4;

/// All values are exact in binary, in float as well.
template <typename T>
std::vector<T> reference_points() {
  std::vector<T> points;
  for (std::size_t i = 0; i < kN; ++i) {
    for (std::size_t f = 0; f < kD; ++f) {
      const std::size_t value = (37 * i + 101 * f + 13 * i * i + 7 * i * f) % 1009;
      points.push_back(static_cast<T>(static_cast<double>(value) / 16.0));
    }
  }
  return points;
}

template <typename T>
Problem<T> reference_problem(std::span<const T> points, StopRule stop) {
  Problem<T> problem;
  problem.n = kN;
  problem.d = kD;
  problem.k = kK;
  problem.points = points;
  problem.centroids = points.first(kK * kD);
  problem.stop = stop;
  return problem;
}

} // namespace clusterbench

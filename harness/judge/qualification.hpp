// Small awkward problems on which one lost row shows. Every variant takes them before its first
// timed cell, and they are always verified exhaustively.
#pragma once

#include "harness/problem/problem.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// A problem that owns its arrays.
template <typename T>
struct OwnedProblem {
  std::string name; ///< what is awkward about it, then its size
  std::size_t n = 0;
  std::size_t d = 0;
  std::size_t k = 0;
  std::vector<T> points;      ///< [n, d]
  std::vector<T> centroids;   ///< [k, d], or empty
  std::vector<T> memberships; ///< [n, k], or empty
  StopRule stop;
  double fuzzifier = 2.0;

  /// The problem as a variant sees it; the spans live as long as this object.
  Problem<T> view() const;
};

/// The fixed list of a family. The caller leaves out what a variant's Meta or refuse() excludes.
/// Each is to be run and verified with verify_answer() against its own run_oracle().
template <typename T>
std::vector<OwnedProblem<T>> qualification_problems(Family family);

} // namespace clusterbench

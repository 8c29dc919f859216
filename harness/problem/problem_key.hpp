// What identifies a problem: the bytes of its points and its start as they are, and all else that
// decides the oracle's run of it.
#pragma once

#include "harness/problem/problem.hpp"

#include <string>

namespace clusterbench {

/// A hash of the points' type, sizes, bytes and weights, in hexadecimal digits. Costs a look at
/// them: ask once, and again after whatever might have written to them.
template <typename T>
std::string points_key(const Problem<T>& problem);

/// The same of the whole problem: points (by their key), start, stop rule, fuzzifier, family. How
/// many threads a variant may use does not matter.
template <typename T>
std::string problem_key(Family family, const Problem<T>& problem, const std::string& points_key);

/// With a look at the points.
template <typename T>
std::string problem_key(Family family, const Problem<T>& problem) {
  return problem_key(family, problem, points_key(problem));
}

} // namespace clusterbench

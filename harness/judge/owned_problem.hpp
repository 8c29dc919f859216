// A problem together with its arrays.
#pragma once

#include "harness/problem/problem.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace clusterbench {

template <typename T>
struct OwnedProblem {
  std::string name; ///< what is awkward about it, then its size
  std::size_t n = 0;
  std::size_t d = 0;
  std::size_t k = 0;
  std::vector<T> points;      ///< [n, d]
  std::vector<T> weights;     ///< [n], or empty
  std::vector<T> centroids;   ///< [k, d], or empty
  std::vector<T> memberships; ///< [n, k], or empty
  std::vector<T> second;      ///< another start of the same kind; empty if there is none
  StopRule stop;
  double fuzzifier = 2.0;

  /// The problem from its start; the spans live as long as this object.
  Problem<T> view() const {
    Problem<T> problem;
    problem.n = n;
    problem.d = d;
    problem.k = k;
    problem.points = points;
    problem.weights = weights;
    problem.centroids = centroids;
    problem.memberships = memberships;
    problem.stop = stop;
    problem.fuzzifier = fuzzifier;
    return problem;
  }
  /// The same from the second start.
  Problem<T> second_view() const {
    Problem<T> problem = view();
    (centroids.empty() ? problem.memberships : problem.centroids) = second;
    return problem;
  }
};

} // namespace clusterbench

// Initial centroids and memberships, identical for every variant.
#pragma once

#include "harness/problem/problem_spec.hpp"

#include <span>
#include <vector>

namespace clusterbench {

template <typename T>
struct InitialState {
  std::vector<T> values; ///< [k, d] centroids or [n, k] memberships
  bool is_memberships = false;
  std::vector<std::size_t> rows; ///< data rows the centroids were taken from, if they were
};

/// Makes the initial state that `spec` asks for over points [n, d]. weights: [n], or empty.
///
/// `random` takes k distinct rows from NumPy's RandomState(seed); `kmeans++` chooses each next row
/// with probability proportional to its squared distance to the nearest row chosen so far
/// (Arthur and Vassilvitskii, 2007), times its weight where points have weights; then the first row
/// is drawn by weight, too. `memberships` draws uniform numbers and scales rows to sum 1.
/// Throws datasets::InputError for rows out of range or repeated, and for a file of another shape.
template <typename T>
InitialState<T> make_initial_state(const ProblemSpec& spec, std::span<const T> points,
                                   std::size_t n, std::size_t d, std::span<const T> weights = {});

} // namespace clusterbench

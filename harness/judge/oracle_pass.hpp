// One pass of the oracle.
#pragma once

#include "harness/problem/problem.hpp"

#include <cstdint>
#include <vector>

namespace clusterbench {

/// What a pass over the data finds out about a set of centroids.
struct OraclePass {
  double loss = 0.0;
  double inertia = 0.0; ///< k-means only
  bool labels_changed = false;
  bool empty_cluster = false;
  std::vector<double> means; ///< [k, d], the centroids that follow
};

/// Compares all points with `centroids` [k, d], updates `labels` [n], and averages.
template <typename T>
OraclePass oracle_pass(Family family, const Problem<T>& problem,
                       const std::vector<double>& centroids, std::vector<std::int32_t>& labels);

/// The centres that follow from the initial memberships of an FCM problem, [k, d].
template <typename T>
std::vector<double> centres_of_initial_memberships(const Problem<T>& problem);

} // namespace clusterbench

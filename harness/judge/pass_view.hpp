// One pass as float64 sees it, together with everything that rounding in a variant's precision may
// change about it: which labels are in doubt, how far each mean and each membership may be off.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/means_view.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace clusterbench {

/// What one set of centroids looks like from all points.
struct PassView {
  double loss = 0.0;          ///< as PassFacts::loss
  double loss_rounding = 0.0; ///< how far a variant's own value of it may be off
  double objective = 0.0;     ///< k-means: inertia; FCM: the loss
  double choice = 0.0; ///< by how much doubtful labels or memberships may raise the objective
  double doubt = 0.0;  ///< the doubtful part of all weight, 0 .. 1
  double objective_in_doubt = 0.0; ///< k-means: what doubtful points add to the objective
  /// The objective of the float64 means with the float64 labels or memberships: an exact pass comes
  /// down to here at least, whatever is in doubt. Only with produced centroids.
  double next_objective = 0.0;
  std::vector<std::int32_t> labels;   ///< [n] nearest centroid
  std::vector<std::uint8_t> doubtful; ///< [n] 1 where rounding may choose another label
  MeansView means;                    ///< empty without produced centroids
};

/// The share of the objective that doubtful points are, where few are much of it: outliers. What
/// rounding does to them decides where a run ends.
double heavy_doubt(const PassView& view);

/// Compares all points with `entering`, and their means with `produced` unless that is empty.
template <typename T>
PassView view_pass(const Declaration& declared, const Problem<T>& problem,
                   std::span<const T> entering, std::span<const T> produced);

} // namespace clusterbench

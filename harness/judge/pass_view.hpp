// One pass as float64 sees it, together with everything that rounding in a variant's precision may
// change about it: which labels are in doubt, how far each mean and each membership may be off.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// The means that a pass should have produced, seen from those that it did produce.
struct MeansView {
  std::vector<double> weight;    ///< [k] points, or sum of u^m
  std::vector<double> doubtful;  ///< [k] the part of the weight that rounding may add or take
  std::vector<double> deviation; ///< [k, d] float64 mean - produced
  std::vector<double> rounding;  ///< [k, d] allowed for adding and dividing in T
  std::vector<double> slack;     ///< [k, d] allowed for doubtful weight
  std::vector<double> origin;    ///< [d] from which the variant measures

  /// Where `produced` breaks the bound worst, or nothing. A cluster without weight must have kept
  /// its centroid of `entering`, if that is given.
  template <typename T>
  std::optional<std::string> offence(std::span<const T> produced,
                                     std::span<const T> entering) const;
  /// Whether some cluster is or may be empty.
  bool may_have_empty() const;
};

/// What one set of centroids looks like from all points.
struct PassView {
  double loss = 0.0;          ///< as PassFacts::loss
  double loss_rounding = 0.0; ///< how far a variant's own value of it may be off
  double objective = 0.0;     ///< k-means: inertia; FCM: the loss
  double choice = 0.0; ///< by how much doubtful labels or memberships may raise the objective
  double doubt = 0.0;  ///< the doubtful part of all points or of all weight, 0 .. 1
  /// The objective of the float64 means with the float64 labels or memberships: an exact pass comes
  /// down to here at least, whatever is in doubt. Only with produced centroids.
  double next_objective = 0.0;
  std::vector<std::int32_t> labels;   ///< [n] nearest centroid
  std::vector<std::uint8_t> doubtful; ///< [n] 1 where rounding may choose another label
  MeansView means;                    ///< empty without produced centroids
};

/// Compares all points with `entering`, and their means with `produced` unless that is empty.
template <typename T>
PassView view_pass(const Declaration& meta, const Problem<T>& problem, std::span<const T> entering,
                   std::span<const T> produced);

/// The means of the given labels, compared with `produced`.
template <typename T>
MeansView view_means_of_labels(const Declaration& declared, const Problem<T>& problem,
                               std::span<const std::int32_t> labels, std::span<const T> produced);

/// The means weighted by u^m of the given memberships, compared with `produced`.
template <typename T>
MeansView view_means_of_memberships(const Declaration& declared, const Problem<T>& problem,
                                    std::span<const T> memberships, std::span<const T> produced);

} // namespace clusterbench

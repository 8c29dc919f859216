// The means of a pass as float64 sees them, and how far rounding in a variant's precision may have
// moved each of them.
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
  std::vector<double> weight;    ///< [k] of the points, or sum of u^m
  std::vector<double> doubtful;  ///< [k] the part of the weight that rounding may add or take
  std::vector<double> deviation; ///< [k, d] float64 mean - produced
  std::vector<double> rounding;  ///< [k, d] allowed for adding and dividing in T
  std::vector<double> slack;     ///< [k, d] allowed for doubtful weight
  std::vector<double> origin;    ///< [d] from which the variant measures

  /// Where `produced` breaks the bound worst, or nothing. A cluster without weight must have kept
  /// its centroid of `entering`, if that is given.
  template <typename T>
  std::optional<std::string> violation(std::span<const T> produced,
                                       std::span<const T> entering) const;
  /// The same for a pass that re-seeds empty clusters: these may be anywhere, and as many others,
  /// from which points were taken, may be off.
  template <typename T>
  std::optional<std::string> violation_if_reseeded(std::span<const T> produced) const;
  /// How many clusters are or may be empty.
  std::size_t possibly_empty() const;

private:
  template <typename T>
  std::optional<std::string> violation(std::span<const T> produced, std::span<const T> entering,
                                       std::size_t excused) const;
};

/// The weighted means of the given labels, compared with `produced`.
template <typename T>
MeansView view_means_of_labels(const Declaration& declared, const Problem<T>& problem,
                               std::span<const std::int32_t> labels, std::span<const T> produced);

/// The means weighted by u^m of the given memberships, compared with `produced`.
template <typename T>
MeansView view_means_of_memberships(const Declaration& declared, const Problem<T>& problem,
                                    std::span<const T> memberships, std::span<const T> produced);

} // namespace clusterbench

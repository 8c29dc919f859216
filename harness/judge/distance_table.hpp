// Distances of points to one set of centroids in float64, with the error that rounding in a
// variant's precision leaves to each.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/judge/distance_kernel.hpp"
#include "harness/judge/rounding.hpp"
#include "harness/problem/problem.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

/// Any number of threads at once, each with a Scratch of its own.
template <typename T>
class DistanceTable {
public:
  /// Refers to the problem's points.
  DistanceTable(const Declaration& declared, const Problem<T>& problem,
                std::span<const T> centroids);

  using Scratch = DistanceKernel::Scratch;
  Scratch scratch() const { return Scratch(kernel_); }
  double operations_per_row() const { return kernel_.operations_per_row(); }

  /// Calls see(row, squared distances [k]) for row_at(i), begin <= i < end.
  template <typename RowAt, typename See>
  void for_each_row(std::size_t begin, std::size_t end, const RowAt& row_at, Scratch& scratch,
                    const See& see) const {
    kernel_.for_each_row(
        begin, end, [&](std::size_t i) { return point(row_at(i)); }, scratch,
        [&](std::size_t i, std::span<const double> squared) { see(row_at(i), squared); });
  }
  /// The squared distances of one row, [k], which lie in the scratch.
  std::span<const double> measure(std::size_t row, Scratch& scratch) const;

  /// How far a variant's own squared distances of this row may be off, given the exact ones.
  void errors(std::size_t row, std::span<const double> squared, std::span<double> error) const;
  double error(std::size_t row, std::size_t j, double squared) const;

private:
  const T* point(std::size_t row) const { return points_.data() + row * d_; }
  double norm(std::size_t row) const;
  double error_of(double norm, std::size_t j, double squared) const;

  std::span<const T> points_;
  std::size_t d_;
  DistanceKernel kernel_;
  std::vector<double> origin_;   ///< [d], only if the rounding depends on norms
  std::vector<double> norms_;    ///< [k] from the origin, only then
  std::vector<double> lengths_;  ///< [k] from zero, only then
  double origin_in_doubt_ = 0.0; ///< how far the variant's own may be away
  DistanceRounding rounding_;
};

} // namespace clusterbench

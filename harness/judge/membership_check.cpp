#include "harness/judge/membership_check.hpp"

#include "harness/judge/distance_table.hpp"
#include "harness/judge/membership_ranges.hpp"
#include "harness/judge/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace clusterbench {
namespace {

/// Memory of one thread.
struct Scratch {
  DistanceKernel::Scratch distances;
  std::vector<double> error; ///< [k]
  MembershipRanges ranges;
};

template <typename T>
Scratch scratch_of(const DistanceTable<T>& table, std::size_t k) {
  return {table.scratch(), std::vector<double>(k), MembershipRanges(k)};
}

template <typename Values>
std::size_t largest_of(const Values& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

} // namespace

template <typename T>
PointFindings check_memberships(const Declaration& declared, const Problem<T>& problem,
                                std::span<const T> centroids, std::span<const T> memberships,
                                const PointSelection& points) {
  constexpr double u = unit_roundoff<T>;
  const DistanceTable<T> table(declared, problem, centroids);
  const auto first_wrong = [&](std::size_t row, std::span<const double> squared, Scratch& s) {
    table.errors(row, squared, s.error);
    s.ranges.compute(squared, s.error, problem.fuzzifier, u);
    for (std::size_t j = 0; j < problem.k; ++j) {
      const double got = static_cast<double>(memberships[row * problem.k + j]);
      if (!(got >= s.ranges.low[j] - u && got <= s.ranges.high[j] + u)) {
        return j;
      }
    }
    return problem.k;
  };
  return find_points(
      points, table.operations_per_row() + 64.0 * static_cast<double>(problem.k),
      scratch_of(table, problem.k),
      [&](std::size_t begin, std::size_t end, Scratch& s, const auto& keep) {
        const auto row_at = [&](std::size_t i) { return points[i]; };
        table.for_each_row(begin, end, row_at, s.distances,
                           [&](std::size_t row, std::span<const double> squared) {
                             keep(row, first_wrong(row, squared, s) < problem.k ? Judgement::wrong
                                                                                : Judgement::right);
                           });
      },
      [&](std::size_t row, Scratch& s) {
        const std::size_t j = first_wrong(row, table.measure(row, s.distances), s);
        return fmt::format(
            "cluster {}: membership {:.9g}, expected {:.9g} (allowed {:.9g} .. {:.9g})", j,
            static_cast<double>(memberships[row * problem.k + j]), s.ranges.value[j],
            s.ranges.low[j] - u, s.ranges.high[j] + u);
      });
}

template <typename T>
PointFindings check_fuzzy_labels(const Declaration& declared, const Problem<T>& problem,
                                 std::span<const T> centroids, std::span<const T> memberships,
                                 std::span<const std::int32_t> labels,
                                 const PointSelection& points) {
  constexpr double u = unit_roundoff<T>;
  const bool known = !centroids.empty();
  const std::vector<T> zero(known ? 0 : problem.k * problem.d);
  const DistanceTable<T> table(declared, problem, known ? centroids : std::span<const T>(zero));
  const auto row_of = [&](std::size_t row) {
    return memberships.subspan(row * problem.k, problem.k);
  };
  const auto judge = [&](std::size_t row, Scratch& s) {
    const auto values = row_of(row);
    const std::size_t best = largest_of(values);
    const auto got = static_cast<std::size_t>(labels[row]);
    if (got == best) {
      return Judgement::right;
    }
    if (!known) {
      const double least = static_cast<double>(values[best]) * (1.0 - kExtraOperations * u);
      return static_cast<double>(values[got]) >= least ? Judgement::off : Judgement::wrong;
    }
    const auto squared = table.measure(row, s.distances);
    table.errors(row, squared, s.error);
    const bool exact_tie = s.error[got] + s.error[best] == 0.0 && !(squared[got] < squared[best]);
    s.ranges.compute(squared, s.error, problem.fuzzifier, u);
    const double largest_low = s.ranges.low[largest_of(s.ranges.low)];
    return !exact_tie && s.ranges.high[got] >= largest_low ? Judgement::off : Judgement::wrong;
  };
  return find_points(
      points, static_cast<double>(problem.k), scratch_of(table, problem.k),
      [&](std::size_t begin, std::size_t end, Scratch& s, const auto& keep) {
        for (std::size_t i = begin; i < end; ++i) {
          keep(points[i], judge(points[i], s));
        }
      },
      [&](std::size_t row, Scratch& /*s*/) {
        const auto values = row_of(row);
        const std::size_t best = largest_of(values);
        const auto got = static_cast<std::size_t>(labels[row]);
        return fmt::format("label {} of membership {:.9g}, expected {} of {:.9g}", got,
                           static_cast<double>(values[got]), best,
                           static_cast<double>(values[best]));
      });
}

template <typename T>
PointFindings check_row_sums(const Problem<T>& problem, std::span<const T> memberships,
                             double more) {
  const double rounding = std::max(
      more, row_sum_rounding(problem.k, 1.0 / (problem.fuzzifier - 1.0), unit_roundoff<T>));
  const auto sum_of = [&](std::size_t row) {
    double sum = 0.0;
    for (std::size_t j = 0; j < problem.k; ++j) {
      sum += static_cast<double>(memberships[row * problem.k + j]);
    }
    return sum;
  };
  const auto judge = [&](std::size_t row) {
    bool in_range = true;
    for (std::size_t j = 0; j < problem.k; ++j) {
      const double membership = static_cast<double>(memberships[row * problem.k + j]);
      in_range = in_range && membership >= 0.0 && membership <= 1.0 + rounding;
    }
    return in_range && std::abs(sum_of(row) - 1.0) <= rounding ? Judgement::right
                                                               : Judgement::wrong;
  };
  return find_points(
      PointSelection::all(problem.n), 2.0 * static_cast<double>(problem.k), NoScratch{},
      [&](std::size_t begin, std::size_t end, NoScratch&, const auto& keep) {
        for (std::size_t row = begin; row < end; ++row) {
          keep(row, judge(row));
        }
      },
      [&](std::size_t row, NoScratch&) {
        return fmt::format("memberships sum to {:.9g} (allowed 1 +- {:.2g}), or one is outside "
                           "[0, 1]",
                           sum_of(row), rounding);
      });
}

template PointFindings check_memberships(const Declaration&, const Problem<float>&,
                                         std::span<const float>, std::span<const float>,
                                         const PointSelection&);
template PointFindings check_memberships(const Declaration&, const Problem<double>&,
                                         std::span<const double>, std::span<const double>,
                                         const PointSelection&);
template PointFindings check_fuzzy_labels(const Declaration&, const Problem<float>&,
                                          std::span<const float>, std::span<const float>,
                                          std::span<const std::int32_t>, const PointSelection&);
template PointFindings check_fuzzy_labels(const Declaration&, const Problem<double>&,
                                          std::span<const double>, std::span<const double>,
                                          std::span<const std::int32_t>, const PointSelection&);
template PointFindings check_row_sums(const Problem<float>&, std::span<const float>, double);
template PointFindings check_row_sums(const Problem<double>&, std::span<const double>, double);

} // namespace clusterbench

#include "harness/judge/projected_means.hpp"

#include "harness/judge/compensated_sum.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/origin.hpp"
#include "harness/judge/point_selection.hpp"
#include "harness/judge/rounding.hpp"
#include "harness/judge/row_chunks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace clusterbench {
namespace {

/// A signed sum over the features of a row, and the same of magnitudes.
struct Projected {
  double value = 0.0;
  double magnitude = 0.0;
};

/// [d] random signs over the magnitude that a sample of the feature has, so that each counts alike.
template <typename T>
std::vector<double> random_direction(const Problem<T>& problem, const Origin& origin,
                                     std::uint64_t seed) {
  constexpr std::size_t kRows = 256;
  std::vector<double> largest(problem.d);
  const PointSelection rows = PointSelection::sample(problem.n, kRows, seed);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t f = 0; f < problem.d; ++f) {
      const double x = static_cast<double>(problem.points[rows[i] * problem.d + f]);
      largest[f] = std::max(largest[f], std::abs(x - origin.at[f]));
    }
  }
  std::mt19937_64 random(seed);
  for (double& value : largest) {
    const double sign = random() >> 63 == 0 ? 1.0 : -1.0;
    value = sign / (value > 0.0 ? value : 1.0);
  }
  return largest;
}

template <typename T>
Projected project(const T* x, const std::vector<double>& direction,
                  const std::vector<double>& origin) {
  Projected sum;
  for (std::size_t f = 0; f < direction.size(); ++f) {
    const double term = direction[f] * (static_cast<double>(x[f]) - origin[f]);
    sum.value += term;
    sum.magnitude += std::abs(term);
  }
  return sum;
}

/// Of one cluster, over the rows of a chunk.
struct ClusterSums {
  CompensatedSum weight, deviation; ///< sum(w), sum(w * (x - produced)) projected
  double magnitude = 0.0;           ///< sum(w * |x - origin|)
};

struct Partial {
  std::vector<ClusterSums> clusters; ///< [k]

  void add(const Partial& other) {
    for (std::size_t j = 0; j < clusters.size(); ++j) {
      clusters[j].weight.add(other.clusters[j].weight);
      clusters[j].deviation.add(other.clusters[j].deviation);
      clusters[j].magnitude += other.clusters[j].magnitude;
    }
  }
};

} // namespace

template <typename T>
std::optional<std::string> wrong_projected_mean(const Declaration& declared,
                                                const Problem<T>& problem,
                                                std::span<const T> memberships,
                                                std::span<const T> produced, std::uint64_t seed) {
  constexpr double u = unit_roundoff<T>;
  const std::size_t k = problem.k;
  const std::size_t d = problem.d;
  const Origin origin = origin_of(declared, problem);
  const std::vector<double> direction = random_direction(problem, origin, seed);
  std::vector<Projected> means(k);
  for (std::size_t j = 0; j < k; ++j) {
    means[j] = project(produced.data() + j * d, direction, origin.at);
  }
  const Partial total = combine_rows(
      problem.n, 8 * k, 8.0 * static_cast<double>(d + k), Partial{std::vector<ClusterSums>(k)},
      NoScratch{}, [&](RowChunk rows, Partial& part, NoScratch&) {
        for (std::size_t row = rows.begin; row < rows.end; ++row) {
          const Projected x = project(problem.points.data() + row * d, direction, origin.at);
          for (std::size_t j = 0; j < k; ++j) {
            const double weight =
                power(static_cast<double>(memberships[row * k + j]), problem.fuzzifier);
            ClusterSums& cluster = part.clusters[j];
            cluster.weight.add(weight);
            cluster.deviation.add(weight * (x.value - means[j].value));
            cluster.magnitude += weight * x.magnitude;
          }
        }
      });
  const double n = static_cast<double>(problem.n);
  const double of_mean = 2.0 * mean_rounding(n, u);
  const double of_projection = (2.0 * static_cast<double>(d) + 64.0) * unit_roundoff<double>;
  double in_doubt = 0.0;
  for (std::size_t f = 0; f < d; ++f) {
    in_doubt += std::abs(direction[f]) * origin.in_doubt[f];
  }
  for (std::size_t j = 0; j < k; ++j) {
    const double weight = total.clusters[j].weight.value();
    if (!(weight > 4.0 * n * smallest_normal<T>)) {
      continue; // T may have lost all of it
    }
    const double off = total.clusters[j].deviation.value() / weight;
    const double magnitude = total.clusters[j].magnitude / weight;
    double allowed =
        of_mean * (magnitude + in_doubt) +
        (power_rounding(problem.fuzzifier, u) + of_projection) * (magnitude + means[j].magnitude);
    for (std::size_t f = 0; origin.is_mean && f < d; ++f) {
      allowed += 2.0 * u * std::abs(direction[f] * static_cast<double>(produced[j * d + f]));
    }
    if (!(std::abs(off) <= allowed)) {
      return fmt::format("cluster {}, along a random direction: got {:.9g}, expected {:.9g} (mean "
                         "of weight {:.9g}; allowed +-{:.2g})",
                         j, means[j].value, means[j].value + off, weight, allowed);
    }
  }
  return std::nullopt;
}

template std::optional<std::string> wrong_projected_mean(const Declaration&, const Problem<float>&,
                                                         std::span<const float>,
                                                         std::span<const float>, std::uint64_t);
template std::optional<std::string> wrong_projected_mean(const Declaration&, const Problem<double>&,
                                                         std::span<const double>,
                                                         std::span<const double>, std::uint64_t);

} // namespace clusterbench

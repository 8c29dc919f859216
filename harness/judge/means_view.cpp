#include "harness/judge/means_view.hpp"

#include "harness/judge/float64_math.hpp"
#include "harness/judge/mean_sums.hpp"
#include "harness/judge/row_chunks.hpp"
#include "harness/judge/weighed_rows.hpp"

#include <fmt/format.h>

#include <limits>

namespace clusterbench {
namespace {

/// Sums over all rows, with body(rows, sums, scratch).
template <typename T, typename Scratch, typename Body>
MeanSums<T> sum_means(const Problem<T>& problem, std::span<const T> produced, const Origin& origin,
                      double operations_per_row, const Scratch& scratch, const Body& body) {
  return combine_rows(problem.n, 4 * problem.k * (problem.d + 1), operations_per_row,
                      MeanSums<T>(produced, problem.k, problem.d, origin), scratch, body);
}

} // namespace

template <typename T>
std::optional<std::string> MeansView::violation(std::span<const T> produced,
                                                std::span<const T> entering) const {
  return violation(produced, entering, 0);
}

template <typename T>
std::optional<std::string> MeansView::violation_if_reseeded(std::span<const T> produced) const {
  return violation(produced, {}, possibly_empty());
}

/// excused: so many clusters may be off.
template <typename T>
std::optional<std::string> MeansView::violation(std::span<const T> produced,
                                                std::span<const T> entering,
                                                std::size_t excused) const {
  const std::size_t d = produced.size() / weight.size();
  std::string where;
  double worst = 0.0;
  std::size_t clusters_off = 0;
  for (std::size_t j = 0; j < weight.size(); ++j) {
    const bool empty = !(weight[j] > 0.0);
    if ((empty && entering.empty()) || doubtful[j] >= std::max(weight[j], 1e-300)) {
      continue; // its old centroid is unknown, or rounding alone decides whether it is empty
    }
    bool is_off = false;
    for (std::size_t f = 0; f < d; ++f) {
      const std::size_t i = j * d + f;
      const double got = static_cast<double>(produced[i]);
      const double kept = empty ? static_cast<double>(entering[i]) : 0.0;
      const double off = empty ? kept - got : deviation[i];
      const double allowed = empty ? 4.0 * unit_roundoff<T> * (std::abs(kept) + std::abs(origin[f]))
                                   : rounding[i] + slack[i];
      const bool within = std::abs(off) <= allowed;
      is_off = is_off || !within;
      if (!within && !(std::abs(off) <= worst * allowed)) {
        worst = allowed > 0.0 ? std::abs(off) / allowed : std::numeric_limits<double>::max();
        where = fmt::format("cluster {}, feature {}: got {:.9g}, expected {:.9g} ({}; allowed "
                            "+-{:.2g})",
                            j, f, got, got + off,
                            empty ? std::string("empty, keeps its centroid")
                                  : fmt::format("mean of weight {:.9g}", weight[j]),
                            allowed);
      }
    }
    clusters_off += is_off ? 1 : 0;
  }
  if (clusters_off <= excused) {
    return std::nullopt;
  }
  return excused == 0
             ? where
             : fmt::format("{} means are off, but only {} clusters may have been empty: {}",
                           clusters_off, excused, where);
}

std::size_t MeansView::possibly_empty() const {
  std::size_t count = 0;
  for (std::size_t j = 0; j < weight.size(); ++j) {
    count += weight[j] > doubtful[j] ? 0 : 1;
  }
  return count;
}

template <typename T>
MeansView view_means_of_labels(const Declaration& declared, const Problem<T>& problem,
                               std::span<const std::int32_t> labels, std::span<const T> produced) {
  const Origin origin = origin_of(declared, problem);
  const double operations = 12.0 * static_cast<double>(problem.d);
  const MeanSums<T> total =
      sum_means(problem, produced, origin, operations, NoScratch{},
                [&](RowChunk rows, MeanSums<T>& part, NoScratch&) {
                  for (std::size_t row = rows.begin; row < rows.end; ++row) {
                    part.add(static_cast<std::size_t>(labels[row]),
                             problem.points.data() + row * problem.d, problem.weight(row), 0.0);
                  }
                });
  return total.view([&](const WeightsOfCluster& weights, double mean, double spread) {
    return rounding_of_mean(problem, weights, mean, spread);
  });
}

template <typename T>
MeansView view_means_of_memberships(const Declaration& declared, const Problem<T>& problem,
                                    std::span<const T> memberships, std::span<const T> produced) {
  constexpr double u = unit_roundoff<T>;
  const double powers = power_rounding(problem.fuzzifier, u);
  const Origin origin = origin_of(declared, problem);
  const double operations = 14.0 * static_cast<double>(problem.k * problem.d);
  const MeanSums<T> total = sum_means(
      problem, produced, origin, operations, WeighedRows(problem.k),
      [&](RowChunk rows, MeanSums<T>& part, WeighedRows& weighed) {
        const auto add = [&](std::size_t j, std::size_t row, double weight, double doubt) {
          part.add(j, problem.points.data() + row * problem.d, weight, doubt);
        };
        for (std::size_t row = rows.begin; row < rows.end; ++row) {
          weighed.next(row, add);
          for (std::size_t j = 0; j < problem.k; ++j) {
            const double weight =
                power(static_cast<double>(memberships[row * problem.k + j]), problem.fuzzifier);
            weighed.set(j, weight, powers * weight + smallest_normal<T>);
          }
        }
        weighed.release(add);
      });
  const double n = static_cast<double>(problem.n);
  return total.view([&](const WeightsOfCluster& /*weights*/, double /*mean*/, double /*spread*/) {
    return 2.0 * mean_rounding(n, u);
  });
}

template std::optional<std::string> MeansView::violation(std::span<const float>,
                                                         std::span<const float>) const;
template std::optional<std::string> MeansView::violation(std::span<const double>,
                                                         std::span<const double>) const;
template std::optional<std::string> MeansView::violation_if_reseeded(std::span<const float>) const;
template std::optional<std::string> MeansView::violation_if_reseeded(std::span<const double>) const;
template MeansView view_means_of_labels(const Declaration&, const Problem<float>&,
                                        std::span<const std::int32_t>, std::span<const float>);
template MeansView view_means_of_labels(const Declaration&, const Problem<double>&,
                                        std::span<const std::int32_t>, std::span<const double>);
template MeansView view_means_of_memberships(const Declaration&, const Problem<float>&,
                                             std::span<const float>, std::span<const float>);
template MeansView view_means_of_memberships(const Declaration&, const Problem<double>&,
                                             std::span<const double>, std::span<const double>);

} // namespace clusterbench

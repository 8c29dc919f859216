#include "harness/judge/nearly_equal_pairs.hpp"

#include "harness/judge/distance_table.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/point_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <utility>

namespace clusterbench {
namespace {

/// Digits of the significand that the widest of the narrow formats keeps: tf32's and float16's, or
/// for double data float32's.
template <typename T>
constexpr int kNarrowDigits = sizeof(T) == sizeof(float) ? 11 : 24;

double with_digits(double value, int digits) {
  int exponent = 0;
  const double significand = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(significand, digits)), exponent - digits);
}

/// A pair of numbers about `value` that every narrow format rounds to one; the second is further
/// from 0. They lie about a number of so many digits of which the last is 1: no format with fewer
/// digits has its border there.
std::pair<double, double> pair_about(double value, int digits) {
  constexpr double kPart = 0.4; // of the distance between two numbers of the narrow format
  if (value == 0.0) {
    return {0.0, 0.0};
  }
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(std::abs(value), &exponent), digits);
  const double odd = 2.0 * std::floor(scaled / 2.0) + 1.0;
  const double sign = value < 0.0 ? -1.0 : 1.0;
  return {sign * std::ldexp(odd - kPart, exponent - digits),
          sign * std::ldexp(odd + kPart, exponent - digits)};
}

/// Where pairs lie: about `scale` times a data row. outward: the second of each pair is further
/// from the origin in every feature; otherwise in some, at random.
struct Layout {
  double scale;
  bool outward;
};

/// Points between the origin and a row see the outer one as the nearer, and narrow products the
/// inner. Data about the origin are told apart by directions at random.
constexpr Layout kLayouts[] = {{0.95, true}, {0.85, true}, {0.7, true},  {0.5, true},
                               {0.3, true},  {0.9, false}, {0.45, false}};

template <typename T>
std::vector<T> place_pairs(const Problem<T>& problem, const Layout& layout,
                           const PointSelection& points, std::uint64_t seed) {
  const std::size_t d = problem.d;
  std::mt19937_64 random(seed);
  // Rows that are looked at later come first: in many dimensions only they may be near.
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < points.size(); ++i) {
    rows.push_back(points[i]);
    std::swap(rows[i], rows[random() % (i + 1)]);
  }
  std::vector<T> centroids(problem.k * d);
  for (std::size_t j = 0; j < problem.k; j += 2) {
    const std::size_t at = j / 2 < rows.size() ? rows[j / 2] : random() % problem.n;
    const T* const row = problem.points.data() + at * d;
    for (std::size_t f = 0; f < d; ++f) {
      auto [first, second] =
          pair_about(layout.scale * static_cast<double>(row[f]), kNarrowDigits<T>);
      if (!layout.outward && random() >> 63 != 0) {
        std::swap(first, second);
      }
      const bool alone = j + 1 == problem.k; // on the other side, out of the way
      centroids[j * d + f] = static_cast<T>(alone ? -first : first);
      if (!alone) {
        centroids[(j + 1) * d + f] = static_cast<T>(second);
      }
    }
  }
  return centroids;
}

/// The labels that narrow products give, with the norms of the centroids as they are or as they are
/// rounded.
template <typename T>
class NarrowLabels {
public:
  NarrowLabels(const Problem<T>& problem, std::span<const T> centroids)
      : problem_(problem), x_(problem.d), products_(problem.k) {
    for (std::size_t j = 0; j < problem.k; ++j) {
      double norm = 0.0;
      double narrow_norm = 0.0;
      for (std::size_t f = 0; f < problem.d; ++f) {
        const double c = static_cast<double>(centroids[j * problem.d + f]);
        const double narrow = with_digits(c, kNarrowDigits<T>);
        centroids_.push_back(narrow);
        norm += c * c;
        narrow_norm += narrow * narrow;
      }
      norms_.push_back(norm);
      narrow_norms_.push_back(narrow_norm);
    }
  }

  std::pair<std::size_t, std::size_t> of(std::size_t row) {
    for (std::size_t f = 0; f < problem_.d; ++f) {
      x_[f] =
          with_digits(static_cast<double>(problem_.points[row * problem_.d + f]), kNarrowDigits<T>);
    }
    for (std::size_t j = 0; j < problem_.k; ++j) {
      double product = 0.0;
      for (std::size_t f = 0; f < problem_.d; ++f) {
        product += x_[f] * centroids_[j * problem_.d + f];
      }
      products_[j] = product;
    }
    return {nearest_with(norms_), nearest_with(narrow_norms_)};
  }

private:
  std::size_t nearest_with(const std::vector<double>& norms) const {
    std::size_t best = 0;
    for (std::size_t j = 1; j < problem_.k; ++j) {
      best = norms[j] - 2.0 * products_[j] < norms[best] - 2.0 * products_[best] ? j : best;
    }
    return best;
  }

  const Problem<T>& problem_;
  std::vector<double> centroids_; ///< [k, d] rounded
  std::vector<double> norms_, narrow_norms_;
  std::vector<double> x_, products_; ///< scratch
};

/// The share of some points that both kinds of narrow labels get wrong, by half as much again as
/// the expanded form may hide.
template <typename T>
double telling_share(const Problem<T>& problem, std::span<const T> centroids,
                     const PointSelection& points) {
  Meta expanded;
  expanded.distance = DistanceForm::expanded;
  const DistanceTable<T> table(expanded, problem, centroids);
  auto scratch = table.scratch();
  NarrowLabels<T> narrow(problem, centroids);
  std::size_t of_exact_norms = 0;
  std::size_t of_narrow_norms = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t row = points[i];
    const auto squared = table.measure(row, scratch);
    const std::size_t best = nearest(squared);
    const auto is_wrong = [&](std::size_t got) {
      const double rounding =
          table.error(row, got, squared[got]) + table.error(row, best, squared[best]);
      return squared[got] - squared[best] > 1.5 * rounding;
    };
    const auto [exact_norms, narrow_norms] = narrow.of(row);
    of_exact_norms += is_wrong(exact_norms) ? 1 : 0;
    of_narrow_norms += is_wrong(narrow_norms) ? 1 : 0;
  }
  return static_cast<double>(std::min(of_exact_norms, of_narrow_norms)) /
         static_cast<double>(points.size());
}

} // namespace

template <typename T>
NearlyEqualPairs<T> nearly_equal_pairs(const Problem<T>& problem, std::uint64_t seed) {
  constexpr std::size_t kPoints = 256;
  const PointSelection points = PointSelection::sample(problem.n, kPoints, seed);
  NearlyEqualPairs<T> best;
  for (const Layout& layout : kLayouts) {
    NearlyEqualPairs<T> pairs{place_pairs(problem, layout, points, seed), 0.0};
    pairs.telling_share = telling_share<T>(problem, pairs.centroids, points);
    if (best.centroids.empty() || pairs.telling_share > best.telling_share) {
      best = std::move(pairs);
    }
  }
  return best;
}

template struct NearlyEqualPairs<float>;
template struct NearlyEqualPairs<double>;
template NearlyEqualPairs<float> nearly_equal_pairs(const Problem<float>&, std::uint64_t);
template NearlyEqualPairs<double> nearly_equal_pairs(const Problem<double>&, std::uint64_t);

} // namespace clusterbench

#include "harness/problem/initial_state.hpp"

#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "datasets/random_state.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace clusterbench {
namespace {

using datasets::InputError;
using datasets::RandomState;

std::vector<std::size_t> checked_rows(const ProblemSpec& spec, std::size_t n) {
  const std::vector<std::size_t>& rows = spec.init.rows;
  if (rows.size() != spec.k) {
    throw InputError(fmt::format("--init {}: {} rows are named, but k is {}", to_string(spec.init),
                                 rows.size(), spec.k));
  }
  std::vector<std::size_t> sorted = rows;
  std::ranges::sort(sorted);
  if (sorted.back() >= n) {
    throw InputError(fmt::format("--init {}: row {} is out of range; rows go from 0 to {}",
                                 to_string(spec.init), sorted.back(), n - 1));
  }
  const auto repeated = std::ranges::adjacent_find(sorted);
  if (repeated != sorted.end()) {
    throw InputError(fmt::format("--init {}: row {} is repeated", to_string(spec.init), *repeated));
  }
  return rows;
}

std::vector<std::size_t> random_rows(std::uint64_t seed, std::size_t n, std::size_t k) {
  RandomState random(static_cast<std::uint32_t>(seed));
  const auto chosen = random.choice(n, k, /*replace=*/false);
  return {chosen.begin(), chosen.end()};
}

/// Where a walk along the shares gets to the drawn part of their total. Rows without a share are
/// never taken, unless no row has one: then n.
std::size_t drawn_row(const std::vector<double>& shares, double part) {
  double left = part * std::accumulate(shares.begin(), shares.end(), 0.0);
  std::size_t pick = shares.size();
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] > 0.0) {
      pick = i;
      left -= shares[i];
      if (left < 0.0) {
        break;
      }
    }
  }
  return pick;
}

template <typename T>
std::vector<std::size_t> kmeans_plus_plus_rows(std::uint64_t seed, std::span<const T> points,
                                               std::size_t n, std::size_t d, std::size_t k,
                                               std::span<const T> weights) {
  RandomState random(static_cast<std::uint32_t>(seed));
  const auto weight = [&](std::size_t i) {
    return weights.empty() ? 1.0 : static_cast<double>(weights[i]);
  };
  std::vector<double> shares(weights.begin(), weights.end());
  std::vector<std::size_t> rows{
      weights.empty() ? static_cast<std::size_t>(random.random_sample() * static_cast<double>(n))
                      : drawn_row(shares, random.random_sample())};
  std::vector<double> nearest(n, std::numeric_limits<double>::infinity());
  shares.resize(n);
  while (rows.size() < k) {
    const T* centroid = &points[rows.back() * d];
    for (std::size_t i = 0; i < n; ++i) {
      double distance = 0.0;
      for (std::size_t j = 0; j < d; ++j) {
        const double difference =
            static_cast<double>(points[i * d + j]) - static_cast<double>(centroid[j]);
        distance += difference * difference;
      }
      nearest[i] = std::min(nearest[i], distance);
      shares[i] = weight(i) * nearest[i];
    }
    // The chosen rows have no share any more.
    std::size_t pick = drawn_row(shares, random.random_sample());
    if (pick == n) { // all that are left coincide with chosen ones, or have no weight
      pick = 0;
      while (std::ranges::find(rows, pick) != rows.end()) {
        ++pick;
      }
    }
    rows.push_back(pick);
  }
  return rows;
}

template <typename T>
std::vector<T> random_memberships(std::uint64_t seed, std::size_t n, std::size_t k) {
  RandomState random(static_cast<std::uint32_t>(seed));
  std::vector<T> memberships(n * k);
  std::vector<double> row(k);
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0.0;
    for (double& value : row) {
      value = random.random_sample() + std::numeric_limits<double>::min(); // never a row of zeros
      sum += value;
    }
    for (std::size_t j = 0; j < k; ++j) {
      memberships[i * k + j] = static_cast<T>(row[j] / sum);
    }
  }
  return memberships;
}

template <typename T>
InitialState<T> read_state(const ProblemSpec& spec, std::size_t n, std::size_t d) {
  const datasets::Array array = datasets::read_npy(spec.init.file);
  datasets::check_points(array, spec.init.file);
  const bool is_centroids = array.rows() == spec.k && array.cols() == d;
  const bool is_memberships =
      spec.family == Family::fcm && array.rows() == n && array.cols() == spec.k;
  if (!is_centroids && !is_memberships) {
    throw InputError(fmt::format(
        "--init {}: the shape is [{}, {}]; expected centroids [{}, {}]{}", to_string(spec.init),
        array.rows(), array.cols(), spec.k, d,
        spec.family == Family::fcm ? fmt::format(" or memberships [{}, {}]", n, spec.k) : ""));
  }
  InitialState<T> state;
  state.is_memberships = !is_centroids;
  const auto copy = [&](auto values) {
    for (const auto value : values) {
      state.values.push_back(static_cast<T>(value));
    }
  };
  if (array.type() == datasets::ElementType::f32) {
    copy(array.f32());
  } else {
    copy(array.f64());
  }
  return state;
}

} // namespace

template <typename T>
InitialState<T> make_initial_state(const ProblemSpec& spec, std::span<const T> points,
                                   std::size_t n, std::size_t d, std::span<const T> weights) {
  const InitSpec& init = spec.init;
  if (init.kind == InitSpec::Kind::file) {
    return read_state<T>(spec, n, d);
  }
  InitialState<T> state;
  if (init.kind == InitSpec::Kind::memberships) {
    if (spec.family != Family::fcm) {
      throw InputError(fmt::format("--init {}: k-means starts from centroids", to_string(init)));
    }
    state.is_memberships = true;
    state.values = random_memberships<T>(init.seed, n, spec.k);
    return state;
  }
  switch (init.kind) {
  case InitSpec::Kind::rows:
    state.rows = checked_rows(spec, n);
    break;
  case InitSpec::Kind::random:
    state.rows = random_rows(init.seed, n, spec.k);
    break;
  case InitSpec::Kind::kmeans_plus_plus:
    state.rows = kmeans_plus_plus_rows(init.seed, points, n, d, spec.k, weights);
    break;
  default:
    state.rows.resize(spec.k);
    std::iota(state.rows.begin(), state.rows.end(), std::size_t{0});
  }
  for (const std::size_t row : state.rows) {
    const auto point = points.subspan(row * d, d);
    state.values.insert(state.values.end(), point.begin(), point.end());
  }
  return state;
}

template InitialState<float> make_initial_state(const ProblemSpec&, std::span<const float>,
                                                std::size_t, std::size_t, std::span<const float>);
template InitialState<double> make_initial_state(const ProblemSpec&, std::span<const double>,
                                                 std::size_t, std::size_t, std::span<const double>);

} // namespace clusterbench

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

template <typename T>
std::vector<std::size_t> kmeans_plus_plus_rows(std::uint64_t seed, std::span<const T> points,
                                               std::size_t n, std::size_t d, std::size_t k) {
  RandomState random(static_cast<std::uint32_t>(seed));
  std::vector<std::size_t> rows{
      static_cast<std::size_t>(random.random_sample() * static_cast<double>(n))};
  std::vector<double> nearest(n, std::numeric_limits<double>::infinity());
  while (rows.size() < k) {
    const T* centroid = &points[rows.back() * d];
    double total = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      double distance = 0.0;
      for (std::size_t j = 0; j < d; ++j) {
        const double difference =
            static_cast<double>(points[i * d + j]) - static_cast<double>(centroid[j]);
        distance += difference * difference;
      }
      nearest[i] = std::min(nearest[i], distance);
      total += nearest[i];
    }
    // Walk to the drawn share of the total; rows of weight 0, the chosen ones, are never taken
    // unless all that are left coincide with chosen ones.
    double left = random.random_sample() * total;
    std::size_t pick = n;
    for (std::size_t i = 0; i < n; ++i) {
      if (nearest[i] > 0.0) {
        pick = i;
        left -= nearest[i];
        if (left < 0.0) {
          break;
        }
      }
    }
    if (pick == n) {
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
                                   std::size_t n, std::size_t d) {
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
    state.rows = kmeans_plus_plus_rows(init.seed, points, n, d, spec.k);
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
                                                std::size_t, std::size_t);
template InitialState<double> make_initial_state(const ProblemSpec&, std::span<const double>,
                                                 std::size_t, std::size_t);

} // namespace clusterbench

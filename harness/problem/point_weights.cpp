#include "harness/problem/point_weights.hpp"

#include "datasets/errors.hpp"
#include "datasets/readers.hpp"
#include "datasets/sha256.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>

namespace clusterbench {
namespace {

using datasets::InputError;

template <typename T>
constexpr std::string_view kName = std::is_same_v<T, float> ? "float32" : "float64";

template <typename T>
constexpr std::string_view kWayOut =
    std::is_same_v<T, float> ? "use --precision f64 or scale the weights" : "scale the weights";

void check_shape(const datasets::Array& array, const std::string& file, std::size_t rows) {
  if (array.cols() != 1 && array.rows() != 1) {
    throw InputError(
        fmt::format("--weights {}: {} rows of {} numbers; one column or one row is needed", file,
                    array.rows(), array.cols()));
  }
  if (array.size() != rows) {
    throw InputError(fmt::format("--weights {}: {} weights, but the data have {} rows", file,
                                 array.size(), rows));
  }
}

/// Calls see(i, value in float64) for every weight, in order.
template <typename See>
void for_each(const datasets::Array& array, const See& see) {
  const auto all = [&](auto values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      see(i, static_cast<double>(values[i]));
    }
  };
  if (array.type() == datasets::ElementType::f32) {
    all(array.f32());
  } else {
    all(array.f64());
  }
}

template <typename T>
void check_values(const datasets::Array& array, const std::string& file) {
  for_each(array, [&](std::size_t i, double value) {
    const bool fits = value <= static_cast<double>(std::numeric_limits<T>::max());
    if (value >= 0.0 && fits) {
      return;
    }
    const std::size_t row = array.cols() == 1 ? i : 0; // else it is a row of weights
    const std::string place = datasets::place_in_file(file, row);
    const std::string which = array.cols() == 1 ? "" : fmt::format(", column {} (from 0)", i);
    throw InputError(fmt::format(
        "--weights {}: {}{}: {}", file, place, which,
        !std::isfinite(value) ? fmt::format("{} is no weight", value)
        : fits                ? fmt::format("{} is negative", value)
               : fmt::format("{} is more than {} holds; {}", value, kName<T>, kWayOut<T>)));
  });
}

/// As it is asked of points: sums of weighted points are to be numbers of T that have all their
/// digits.
template <typename T>
void check_sums(std::span<const T> weights, std::span<const T> points, const std::string& file) {
  const T largest = std::ranges::max(weights);
  if (!(largest > T{0})) {
    throw InputError(fmt::format("--weights {}: all {} weights are 0{}", file, weights.size(),
                                 std::is_same_v<T, float> ? " in float32" : ""));
  }
  constexpr auto kMost = static_cast<double>(std::numeric_limits<T>::max());
  const double least = std::sqrt(static_cast<double>(std::numeric_limits<T>::min()) /
                                 static_cast<double>(std::numeric_limits<T>::epsilon()));
  if (static_cast<double>(largest) < least) {
    throw InputError(
        fmt::format("--weights {}: all weights are too small: the largest is {:.3g}, and "
                    "weighted points keep their digits in {} from {:.2g} on; {}",
                    file, largest, kName<T>, least, kWayOut<T>));
  }
  double farthest = 1.0;
  for (const T value : points) {
    farthest = std::max(farthest, std::abs(static_cast<double>(value)));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(total <= kMost / farthest)) {
    throw InputError(
        fmt::format("--weights {}: the weights add up to {:.3g}: sums of weighted points "
                    "would exceed {}; {}",
                    file, total, kName<T>, kWayOut<T>));
  }
}

} // namespace

template <typename T>
PointWeights<T>::PointWeights(const std::string& file, std::size_t rows, std::size_t taken,
                              std::span<const T> points) {
  const datasets::Array array = datasets::read_file(file);
  check_shape(array, file, rows);
  check_values<T>(array, file);
  sha256 = datasets::sha256_hex(array.bytes());
  type = name_of(array.type());
  values.resize(taken);
  for_each(array, [&](std::size_t i, double value) {
    if (i < taken) {
      values[i] = static_cast<T>(value);
    }
  });
  check_sums<T>(values, points, file);
}

template struct PointWeights<float>;
template struct PointWeights<double>;

} // namespace clusterbench

// A model on the host of a tensor core that loses all it may: float16 factors, groups of products
// that are cut.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace clusterbench::cuda {

using Vector = std::vector<double>;

inline double to_half(double value) {
  return static_cast<double>(static_cast<_Float16>(std::clamp(value, -65504.0, 65504.0)));
}

/// Adds groups of products to an accumulator as a tensor core does that keeps 24 bits and cuts: all
/// terms to the unit of the largest one, and the sum once more.
inline float cut_product(const Vector& x, const Vector& c, std::size_t group) {
  double accumulated = 0.0;
  const auto cut = [](double value, int exponent) {
    const double unit = std::ldexp(1.0, exponent - 23);
    return std::trunc(value / unit) * unit;
  };
  for (std::size_t first = 0; first < x.size(); first += group) {
    const std::size_t end = std::min(first + group, x.size());
    double largest = std::abs(accumulated);
    for (std::size_t f = first; f < end; ++f) {
      largest = std::max(largest, std::abs(x[f] * c[f]));
    }
    if (largest == 0.0) {
      continue;
    }
    const int exponent = std::ilogb(largest);
    double sum = cut(accumulated, exponent);
    for (std::size_t f = first; f < end; ++f) {
      sum += cut(x[f] * c[f], exponent);
    }
    accumulated = sum == 0.0 ? 0.0 : cut(sum, std::ilogb(sum));
  }
  return static_cast<float>(accumulated);
}

} // namespace clusterbench::cuda

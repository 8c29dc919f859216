#include "harness/judge/collapse.hpp"

#include <algorithm>
#include <vector>

namespace clusterbench {
namespace {

constexpr double kApart = 1e-3; // of the spread

/// The mean squared distance of the points to their mean.
template <typename T>
double squared_spread(const Problem<T>& problem) {
  const auto [n, d] = std::pair(problem.n, problem.d);
  std::vector<double> mean(d), squares(d);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      mean[f] += double{problem.points[i * d + f]} / static_cast<double>(n);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      const double away = double{problem.points[i * d + f]} - mean[f];
      squares[f] += away * away / static_cast<double>(n);
    }
  }
  double sum = 0.0;
  for (const double square : squares) {
    sum += square;
  }
  return sum;
}

template <typename T>
bool farther_than(double squared, const T* a, const T* b, std::size_t d) {
  double sum = 0.0;
  for (std::size_t f = 0; f < d && !(sum > squared); ++f) {
    const double away = double{a[f]} - double{b[f]};
    sum += away * away;
  }
  return sum > squared;
}

} // namespace

template <typename T>
std::size_t centres_apart(const Problem<T>& problem, std::span<const T> centres) {
  const double squared = kApart * kApart * squared_spread(problem);
  std::vector<const T*> apart;
  for (std::size_t j = 0; j < problem.k; ++j) {
    const T* centre = &centres[j * problem.d];
    if (std::ranges::all_of(apart, [&](const T* other) {
          return farther_than(squared, centre, other, problem.d);
        })) {
      apart.push_back(centre);
    }
  }
  return apart.size();
}

template std::size_t centres_apart(const Problem<float>&, std::span<const float>);
template std::size_t centres_apart(const Problem<double>&, std::span<const double>);

} // namespace clusterbench

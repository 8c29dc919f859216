// Data and answers for the tests of the variants that skip distances.
#pragma once

#include "tests/unit/run_variant.hpp"

#include <cmath>
#include <random>

namespace clusterbench {

using variant_tests::Case;
using variant_tests::OwnedAnswer;

template <typename T>
OwnedAnswer<T> answer_of(Variant<T>& variant, Case<T> test, const std::vector<T>& from,
                         const StopRule& stop, int threads) {
  test.centroids = from;
  test.stop = stop;
  test.threads = threads;
  EXPECT_EQ(variant.refuse(test.shape()), "");
  OwnedAnswer<T> answer = variant_tests::prepare_and_run(variant, Family::kmeans, test);
  EXPECT_EQ(answer.iterations, answer.recorder.passes.size());
  return answer;
}

inline constexpr std::size_t kPasses = 12;

inline StopRule passes(std::size_t count) {
  return {.kind = StopRule::Kind::iterations, .max_iterations = count};
}

/// Points in `blobs` heaps (0: anywhere), the coordinates rounded to multiples of `grid` if it is
/// not 0; the first k are the centroids.
template <typename T>
Case<T> drawn(std::string what, std::size_t n, std::size_t d, std::size_t k, std::size_t blobs,
              double offset, double scale, double grid) {
  std::mt19937_64 random(n * 31 + d * 7 + k);
  std::normal_distribution<double> normal;
  Case<T> test{.n = n, .d = d, .k = k, .what = std::move(what)};
  std::vector<double> middles(std::max<std::size_t>(blobs, 1) * d);
  std::ranges::generate(middles, [&] { return blobs == 0 ? 0.0 : 8.0 * normal(random); });
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t blob = blobs == 0 ? 0 : random() % blobs;
    for (std::size_t f = 0; f < d; ++f) {
      double value = middles[blob * d + f] + normal(random);
      value = grid > 0.0 ? grid * std::round(value / grid) : value;
      test.points.push_back(static_cast<T>(scale * (value + offset)));
    }
  }
  test.centroids.assign(test.points.begin(),
                        test.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return test;
}

template <typename T>
std::vector<Case<T>> cases() {
  std::vector<Case<T>> found;
  for (const std::size_t d : {1, 9, 17, 37}) {
    for (const std::size_t k : {1, 7, 41}) {
      found.push_back(drawn<T>("heaps", 501, d, k, 9, 0.0, 1.0, 0.0));
      found.push_back(drawn<T>("no structure", 333, d, k, 0, 0.0, 1.0, 0.0));
      // Many points alike, many distances alike, and often two centroids in one place.
      found.push_back(drawn<T>("grid", 401, d, k, 3, 0.0, 1.0, 2.0));
      found.push_back(drawn<T>("far from the origin", 301, d, k, 5, 3000.0, 1.0, 0.0));
      found.push_back(drawn<T>("farther, few bits left", 301, d, k, 5, 1e6, 1.0, 0.0));
      found.push_back(drawn<T>("tiny: squares underflow", 301, d, k, 5, 0.0,
                               sizeof(T) == sizeof(float) ? 1e-22 : 1e-161, 0.0));
    }
  }
  found.push_back(drawn<T>("k = n", 64, 5, 64, 0, 0.0, 1.0, 0.0));
  found.push_back(drawn<T>("one point", 1, 3, 1, 0, 0.0, 1.0, 0.0));
  found.push_back(drawn<T>("many clusters", 2000, 20, 300, 40, 0.0, 1.0, 0.0));
  Case<T> empty = drawn<T>("empty cluster", 257, 4, 6, 4, 0.0, 1.0, 0.0);
  std::fill_n(empty.centroids.begin() + 8, 4, T{1000});
  found.push_back(empty);
  return found;
}

} // namespace clusterbench

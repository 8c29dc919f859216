#include "harness/judge/point_selection.hpp"

#include <algorithm>
#include <random>

namespace clusterbench {

PointSelection PointSelection::all(std::size_t n) {
  PointSelection selection;
  selection.size_ = n;
  return selection;
}

PointSelection PointSelection::sample(std::size_t n, std::size_t count, std::uint64_t seed) {
  PointSelection selection = all(n);
  if (count < n) {
    std::mt19937_64 random(seed);
    selection.size_ = count;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = n / count * i + std::min(i, n % count);
      const std::size_t length = n / count + (i < n % count ? 1 : 0);
      selection.sampled_.push_back(begin + random() % length);
    }
  }
  return selection;
}

} // namespace clusterbench

// Which points a check looks at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace clusterbench {

/// All points, or a seeded random subset of them in ascending order.
class PointSelection {
public:
  static PointSelection all(std::size_t n);
  /// `count` points, one at random from each of `count` equal stretches; all if count >= n.
  static PointSelection sample(std::size_t n, std::size_t count, std::uint64_t seed);

  std::size_t size() const { return size_; }
  std::size_t operator[](std::size_t i) const { return sampled_.empty() ? i : sampled_[i]; }
  bool is_sample() const { return !sampled_.empty(); }

private:
  std::size_t size_ = 0;
  std::vector<std::size_t> sampled_; ///< empty: all
};

} // namespace clusterbench

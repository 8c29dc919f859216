// How many points fit shared memory, and where they lie: impls/cuda/few_features/column_points.cuh.

#include "impls/cuda/few_features/column_points.cuh"

#include <gtest/gtest.h>
#include <set>

namespace clusterbench::cuda {
namespace {

constexpr std::size_t kStep = 1024, kRoom = 200000;

std::size_t bytes(const ResidentPoints& points, std::size_t d) {
  return points.stride * d * sizeof(float) + points.count;
}

TEST(ResidentPoints, AllOfAShareThatFits) {
  EXPECT_EQ(ResidentPoints::of(5000, kStep, 9, kRoom).count, 5000u);
  EXPECT_EQ(ResidentPoints::apart(5000, kStep, 9, kRoom).count, 5000u);
}

TEST(ResidentPoints, WholeStepsOfAShareThatDoesNot) {
  const auto points = ResidentPoints::of(9000, kStep, 9, kRoom); // 5405 fit
  EXPECT_EQ(points.count, 5 * kStep);
  EXPECT_EQ(ResidentPoints::apart(9000, kStep, 9, kRoom).count, 5 * kStep);
  EXPECT_EQ(ResidentPoints::apart(9000, kStep, 9, 100).count, 0u);
}

// Shares around the largest that fits: the padding must not lead out of the room.
TEST(ResidentPoints, NeverMoreThanTheRoom) {
  for (std::size_t d = 1; d <= 16; ++d) {
    const std::size_t fits = kRoom / (d * sizeof(float) + 1);
    std::size_t whole = 0;
    for (std::size_t share = fits - 200; share <= fits + 10; ++share) {
      const auto close = ResidentPoints::of(share, kStep, d, kRoom);
      EXPECT_LE(bytes(close, d), kRoom) << share << " of " << d;
      EXPECT_EQ(close.count == share, share <= fits) << share << " of " << d;
      const auto apart = ResidentPoints::apart(share, kStep, d, kRoom);
      EXPECT_LE(bytes(apart, d), kRoom) << share << " of " << d;
      EXPECT_GE(apart.stride, apart.count);
      whole += apart.count == share ? 1 : 0;
    }
    EXPECT_GT(whole, 100u); // little is lost
  }
}

TEST(ResidentPoints, NeighboursLieInDifferentBanks) {
  for (std::size_t d = 1; d <= 16; ++d) {
    const auto points = ResidentPoints::apart(1000, kStep, d, kRoom);
    std::set<std::size_t> banks;
    const std::size_t neighbours = 32 / (d + 1);
    for (std::size_t f = 0; f < d; ++f) {
      for (std::size_t i = 0; i < neighbours; ++i) {
        banks.insert((f * points.stride + i) % 32);
      }
    }
    EXPECT_EQ(banks.size(), d * neighbours) << d;
  }
}

} // namespace
} // namespace clusterbench::cuda

// A million clusters of 32 features. Points are corners of a cube and some noise, so the nearest
// centroid of each is known: all labels are compared, and all means.
//
// Skipped where there is no GPU, or too little memory on it, and in the small subset
// (CLUSTERBENCH_GPU_SUBSET).
#include "harness/machine/nvml.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kClusters = 1000000, kFeatures = 32, kRows = 1500000;
constexpr unsigned kBits = 20; // that tell clusters apart; the other features are their parities

std::size_t label_of(std::size_t row) {
  return row * 7 % kClusters; // 7 and the clusters have no common factor: no cluster stays empty
}

/// -1 or 1. Noise of less than 1/2 does not bring a point nearer to another corner.
float corner(std::size_t cluster, std::size_t feature) {
  const std::uint64_t mask = feature < kBits ? std::uint64_t{1} << feature : feature * 0x9e3779b1u;
  return (std::popcount(cluster & mask) & 1) != 0 ? 1.0f : -1.0f;
}

/// [rows, d]
std::vector<float> corners(std::size_t rows, bool of_clusters, float noise) {
  std::mt19937 random(11);
  std::vector<float> values(rows * kFeatures);
  for (std::size_t e = 0; e < values.size(); ++e) {
    const std::size_t row = e / kFeatures;
    const float uniform = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
    values[e] = corner(of_clusters ? row : label_of(row), e % kFeatures) + noise * uniform;
  }
  return values;
}

/// [k, d]: the means of the points with these labels.
std::vector<double> means_of(const std::vector<float>& points) {
  std::vector<double> sums(kClusters * kFeatures), counts(kClusters);
  for (std::size_t e = 0; e < points.size(); ++e) {
    const std::size_t label = label_of(e / kFeatures);
    sums[label * kFeatures + e % kFeatures] += double{points[e]};
    counts[label] += e % kFeatures == 0 ? 1.0 : 0.0;
  }
  for (std::size_t e = 0; e < sums.size(); ++e) {
    sums[e] /= counts[e / kFeatures];
  }
  return sums;
}

class MillionClusters : public NamedGpuVariant {};

TEST_P(MillionClusters, AreRight) {
  if (std::getenv("CLUSTERBENCH_GPU_SUBSET") != nullptr) {
    GTEST_SKIP() << "not in the small subset";
  }
  constexpr std::size_t kNeeded = std::size_t{16} << 30;
  if (gpu_state(0).memory_total_bytes < kNeeded) {
    GTEST_SKIP() << "the GPU has less than 16 GiB of memory";
  }
  OwnedProblem<float> problem;
  problem.n = kRows;
  problem.d = kFeatures;
  problem.k = kClusters;
  problem.points = corners(kRows, false, 0.4f);
  problem.centroids = corners(kClusters, true, 0.05f);
  problem.stop.max_iterations = 2; // the second pass finds the same labels and means
  const OwnedAnswer<float> answer = OnGpu<float>(variant(), problem.view()).run();
  EXPECT_EQ(answer.iterations, 2u);
  std::size_t wrong = 0, off = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    wrong += answer.labels[i] != static_cast<std::int32_t>(label_of(i)) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0u);
  const std::vector<double> right = means_of(problem.points);
  for (std::size_t e = 0; e < right.size(); ++e) {
    off += std::abs(double{answer.centroids[e]} - right[e]) < 1e-6 ? 0 : 1; // NaN counts, too
  }
  EXPECT_EQ(off, 0u);
}

// Those that kmeans_cuda_auto names for the shape, but for kmeans_cublas, whose 1.5e12 products go
// through memory.
INSTANTIATE_TEST_SUITE_P(All, MillionClusters,
                         testing::Values("kmeans_cuda_certified", "kmeans_cuda_wgmma"),
                         [](const auto& name) { return std::string(name.param); });

} // namespace
} // namespace clusterbench

// The GPU variants that take weights of points, judged by the verifier and its float64 oracle:
// awkward sizes, weights of 0, weights of many scales, clusters without weight, all stop rules.
//
// Skipped where there is no GPU. Weighted problems of the qualification are in test_cuda_variants.
#include "harness/judge/verifier.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>

namespace clusterbench {
namespace {

using Random = std::mt19937_64;

/// Between 0 and 3, and none for every fifth point.
float usual(Random& random, std::size_t i) {
  return i % 5 == 4 ? 0.0f : std::uniform_real_distribution<float>(0.01f, 3.0f)(random);
}

/// Eight powers of ten.
float of_many_scales(Random& random, std::size_t /*i*/) {
  return std::pow(10.0f, std::uniform_real_distribution<float>(-4.0f, 4.0f)(random));
}

/// Overlapping clouds whose points have weights.
OwnedProblem<float> weighted(std::size_t n, std::size_t d, std::size_t k,
                             const std::function<float(Random&, std::size_t)>& weight = usual,
                             StopRule stop = {StopRule::Kind::iterations, 0.0, 3}) {
  OwnedProblem<float> problem = clouds<float>(n, d, k, 1);
  problem.stop = stop;
  Random random(n + 7 * d + 70 * k);
  for (std::size_t i = 0; i < n; ++i) {
    problem.weights.push_back(weight(random, i));
  }
  return problem;
}

class CudaWeights : public NamedGpuVariant {
protected:
  /// Three runs, two of one object: right, and the same to the bit. False where it is refused.
  bool is_right(const OwnedProblem<float>& owned, OwnedAnswer<float>* kept = nullptr) const {
    const Problem<float> problem = owned.view();
    SCOPED_TRACE(meta().name + ": n=" + std::to_string(problem.n) +
                 " d=" + std::to_string(problem.d) + " k=" + std::to_string(problem.k) +
                 " stop=" + std::to_string(static_cast<int>(problem.stop.kind)));
    if (!takes(variant(), problem)) {
      return false;
    }
    const auto answer = repeated_answer(variant(), problem);
    const Verdict verdict =
        verify_answer(meta(), problem, answer.view(), run_oracle(meta().family, problem));
    EXPECT_TRUE(verdict.right()) << verdict.message();
    if (kept != nullptr) {
      *kept = answer;
    }
    return true;
  }
};

TEST_P(CudaWeights, AwkwardSizes) {
  std::size_t taken = 0;
  for (const std::size_t d : {1, 3, 13, 16, 37, 64, 100, 129, 250, 500}) {
    for (const std::size_t k : {1, 2, 5, 8, 9, 16, 33, 300}) {
      for (const std::size_t n : {1, 15, 17, 257, 1025}) {
        if (k <= n) {
          taken += is_right(weighted(n, d, k)) ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(taken, 100u);
}

// Several tiles a block and a last one that is not full; sums of sorted rows where there are many
// values.
TEST_P(CudaWeights, OnAllMultiprocessors) {
  std::size_t taken = 0;
  for (const auto& [n, d, k] : {std::array<std::size_t, 3>{140007, 13, 8},
                                {140007, 30, 16},
                                {140007, 30, 33},
                                {70001, 64, 5},
                                {70001, 64, 40},
                                {70001, 100, 4},
                                {33001, 128, 16},
                                {33001, 128, 129},
                                {20011, 500, 8},
                                {20011, 500, 16}}) {
    taken += is_right(weighted(n, d, k)) ? 1 : 0;
    taken += is_right(weighted(n, d, k, of_many_scales)) ? 1 : 0;
  }
  EXPECT_GT(taken, 10u);
}

TEST_P(CudaWeights, StopRules) {
  std::size_t taken = 0;
  for (const auto& [n, d, k] :
       {std::array<std::size_t, 3>{5003, 24, 7}, {5003, 100, 16}, {5003, 9, 33}}) {
    for (const StopRule& rule :
         {StopRule{StopRule::Kind::loss, 5.0, 40}, StopRule{StopRule::Kind::labels, 0.0, 40},
          StopRule{StopRule::Kind::shift, 1e-2, 40}}) {
      taken += is_right(weighted(n, d, k, usual, rule)) ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 3u);
}

// Every second point is far away and has no weight. Its cluster's centroid lies there, gets these
// points, and stays to the bit; so do centroids that no point is near.
TEST_P(CudaWeights, AClusterWithoutWeightKeepsItsCentroid) {
  std::size_t taken = 0;
  for (const std::size_t d : {3, 20, 100, 300}) {
    OwnedProblem<float> problem = weighted(1201, d, 6);
    for (std::size_t i = 0; i < problem.n; i += 2) {
      problem.weights[i] = 0.0f;
      for (std::size_t f = 0; f < d; ++f) {
        problem.points[i * d + f] += 50.0f;
      }
    }
    std::copy_n(problem.points.begin() + static_cast<std::ptrdiff_t>(d), 6 * d,
                problem.centroids.begin()); // points 1 to 6
    for (std::size_t f = 0; f < d; ++f) {
      problem.centroids[f] = 49.5f + 0.01f * static_cast<float>(f % 7);
      problem.centroids[d + f] = -80.0f;
    }
    for (std::size_t j = 2; j < 6; ++j) { // points with weight
      std::copy_n(problem.points.begin() + static_cast<std::ptrdiff_t>((2 * j + 1) * d), d,
                  problem.centroids.begin() + static_cast<std::ptrdiff_t>(j * d));
    }
    OwnedAnswer<float> answer;
    if (is_right(problem, &answer)) {
      ++taken;
      for (std::size_t e = 0; e < 2 * d; ++e) {
        EXPECT_EQ(answer.centroids[e], problem.centroids[e]);
      }
      EXPECT_EQ(std::ranges::count(answer.labels, 0), 601);
    }
  }
  EXPECT_GT(taken, 1u);
}

TEST_P(CudaWeights, OnePointHasAllTheWeight) {
  OwnedProblem<float> problem = weighted(333, 20, 3);
  std::ranges::fill(problem.weights, 0.0f);
  problem.weights[200] = 2.5f;
  OwnedAnswer<float> answer;
  ASSERT_TRUE(is_right(problem, &answer));
  const auto j = static_cast<std::size_t>(answer.labels[200]);
  for (std::size_t f = 0; f < problem.d; ++f) {
    EXPECT_FLOAT_EQ(answer.centroids[j * problem.d + f], problem.points[200 * problem.d + f]);
  }
}

// The unit in which weights are counted is theirs: all of this is exact, so not a bit changes.
TEST_P(CudaWeights, WeightsOfOneAndTimesAPowerOfTwo) {
  if (meta().name == "kmeans_cuda_auto") {
    GTEST_SKIP() << "without weights it may pick another variant";
  }
  for (const auto& [n, d, k] :
       {std::array<std::size_t, 3>{3001, 20, 5}, {3001, 100, 16}, {70001, 64, 8}}) {
    SCOPED_TRACE(std::to_string(n) + " points of " + std::to_string(d) + " features");
    OwnedProblem<float> problem = weighted(n, d, k);
    const auto answer = OnGpu<float>(variant(), problem.view()).run_recorded();
    for (float& weight : problem.weights) {
      weight *= 0x1p20f;
    }
    expect_same(OnGpu<float>(variant(), problem.view()).run_recorded(), answer);
    std::ranges::fill(problem.weights, 1.0f);
    const auto ones = OnGpu<float>(variant(), problem.view()).run_recorded();
    problem.weights.clear();
    expect_same(ones, OnGpu<float>(variant(), problem.view()).run_recorded());
  }
}

// What would lose digits is refused in words.
TEST_P(CudaWeights, WeightsTooFarApart) {
  OwnedProblem<float> problem = weighted(3001, 20, 5);
  problem.weights[7] = 1e-25f;
  const std::string reason = refusal(variant(), problem.view());
  EXPECT_NE(reason.find("weights"), std::string::npos) << reason;
  problem.weights[7] = 1e-5f;
  EXPECT_EQ(refusal(variant(), problem.view()), "");
}

INSTANTIATE_TEST_SUITE_P(All, CudaWeights,
                         testing::Values("kmeans_cuda_fused", "kmeans_cuda_tiled",
                                         "kmeans_cuda_mma", "kmeans_cuda_wgmma",
                                         "kmeans_cuda_hamerly", "kmeans_cuda_certified",
                                         "kmeans_cuda_auto"),
                         [](const auto& name) { return std::string(name.param); });

// Where points have weights, the table's lines for variants that take none are passed over.
TEST(CudaAuto, PicksAmongThoseThatTakeWeights) {
  if (const std::string reason = why_skipped("kmeans_cuda_auto"); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const auto pick = [](std::size_t n, std::size_t d, std::size_t k) {
    const OwnedProblem<float> problem = weighted(n, d, k);
    OnGpu<float> object(built_variant("kmeans_cuda_auto"), problem.view());
    object.run();
    const std::string path = object.chosen_path();
    return path.substr(0, path.find(':'));
  };
  if (!refusal_of_shape<float>(built_variant("kmeans_cuda_wgmma"),
                               {.n = 1000, .d = 20, .k = 5, .stop = {}})
           .empty()) {
    GTEST_SKIP() << "a device with other picks";
  }
  EXPECT_EQ(pick(5000, 100, 4), "kmeans_cuda_fused");
  EXPECT_EQ(pick(5000, 20, 5), "kmeans_cuda_fused");
  EXPECT_EQ(pick(5000, 2, 5), "kmeans_cuda_wgmma"); // too few features for fused
  EXPECT_EQ(pick(5000, 64, 100), "kmeans_cuda_wgmma");
  EXPECT_EQ(pick(5000, 20, 1000), "kmeans_cuda_certified");
}

} // namespace
} // namespace clusterbench

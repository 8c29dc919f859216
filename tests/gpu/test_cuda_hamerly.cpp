// kmeans_cuda_hamerly leaves rows alone that no centroid can have reached. Its answers have to be
// those of kmeans_cuda_wgmma, which compares all, to the bit and after every pass; and it has to
// leave rows alone, or this would test nothing.
//
// Skipped where there is no GPU of compute capability 9.0. docs/ladder/hamerly.md has the proof.
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {
namespace {

/// Shares of the rows that the passes compared.
class Swept final : public Observer<float> {
public:
  bool recording() const override { return true; }
  void counter(std::string_view name, double value) override {
    if (name == "left_alone") {
      shares.push_back(1.0 - value);
    }
  }
  double least() const { return *std::min_element(shares.begin(), shares.end()); }

  std::vector<double> shares;
};

/// Points around `components` centres, and the first ones as the start.
OwnedProblem<float> mixture(std::size_t n, std::size_t d, std::size_t k, std::size_t components,
                            float noise, std::size_t passes) {
  OwnedProblem<float> problem;
  problem.n = n;
  problem.d = d;
  problem.k = k;
  problem.stop = {StopRule::Kind::iterations, 0.0, passes};
  std::mt19937 random(static_cast<unsigned>(n + 10 * d + 1000 * k));
  std::normal_distribution<float> normal;
  std::vector<float> centres(components * d);
  for (float& value : centres) {
    value = normal(random);
  }
  problem.points.resize(n * d);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t own = random() % components;
    for (std::size_t f = 0; f < d; ++f) {
      problem.points[i * d + f] = centres[own * d + f] + noise * normal(random);
    }
  }
  problem.centroids.assign(problem.points.begin(),
                           problem.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return problem;
}

/// Four centroids start at an end of a line of points, and go along it for many passes. Clusters
/// beside the line stand still, and have points between them and the line, which change to a
/// centroid that goes by, and back again. The line has so few points that others are left alone.
OwnedProblem<float> passers_by(std::size_t passes) {
  constexpr std::size_t kAlong = 3000, kStanding = 60, kEach = 600;
  OwnedProblem<float> problem;
  problem.d = 40;
  problem.k = 4 + kStanding;
  problem.stop = {StopRule::Kind::iterations, 0.0, passes};
  std::mt19937 random(5);
  const auto uniform = [&](float from, float to) {
    return from + (to - from) * static_cast<float>(random() >> 8) * 0x1p-24f;
  };
  const auto add = [&](std::vector<float>& to, float along, float beside, float noise) {
    for (std::size_t f = 0; f < problem.d; ++f) {
      to.push_back((f == 0 ? along : f == 1 ? beside : 0.0f) + noise * uniform(-1.0f, 1.0f));
    }
  };
  for (std::size_t i = 0; i < kAlong; ++i) {
    add(problem.points, uniform(0.0f, 60.0f), 0.0f, 0.01f);
  }
  for (std::size_t j = 0; j < 4; ++j) {
    add(problem.centroids, static_cast<float>(j), 0.0f, 0.0f);
  }
  for (std::size_t j = 0; j < kStanding; ++j) {
    const float along = static_cast<float>(j % 6) * 10.0f;
    const float beside = 20.0f + static_cast<float>(j / 6) * 10.0f;
    for (std::size_t i = 0; i < kEach; ++i) {
      add(problem.points, along, beside, 0.01f);
    }
    for (std::size_t i = 0; i < (j < 6 ? 100 : 0); ++i) {
      add(problem.points, along, uniform(9.0f, 11.0f), 0.0f);
    }
    add(problem.centroids, along, beside, 0.0f);
  }
  problem.n = problem.points.size() / problem.d;
  return problem;
}

class CudaHamerly : public testing::Test {
protected:
  void SetUp() override {
    for (const char* name : {"kmeans_cuda_hamerly", "kmeans_cuda_wgmma"}) {
      if (const std::string reason = why_skipped(name); !reason.empty()) {
        GTEST_SKIP() << reason;
      }
    }
    if (const std::string reason = refusal_of_shape<float>(
            built_variant("kmeans_cuda_hamerly"), {.n = 1000, .d = 20, .k = 5, .stop = {}});
        !reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  /// Returns the least share of rows that a pass has swept.
  static double expect_as_wgmma(const OwnedProblem<float>& owned, const std::string& what) {
    SCOPED_TRACE(what + ": n=" + std::to_string(owned.n) + " d=" + std::to_string(owned.d) +
                 " k=" + std::to_string(owned.k));
    const Problem<float> problem = owned.view();
    OnGpu<float> object(built_variant("kmeans_cuda_hamerly"), problem);
    const auto right = OnGpu<float>(built_variant("kmeans_cuda_wgmma"), problem).run_recorded();
    expect_same(object.run_recorded(), right);
    expect_same(object.run_recorded(), right); // no bounds are left of the first run
    Swept swept;
    EXPECT_EQ(object.run(swept).labels, right.labels);
    EXPECT_EQ(swept.shares.size(), right.iterations);
    return swept.least();
  }
};

TEST_F(CudaHamerly, CentroidsThatGoBy) {
  EXPECT_LT(expect_as_wgmma(passers_by(40), "passers-by"), 0.5);
}

TEST_F(CudaHamerly, Mixtures) {
  EXPECT_LT(expect_as_wgmma(mixture(60000, 128, 1000, 2000, 0.5f, 25), "mixture"), 0.2);
  EXPECT_LT(expect_as_wgmma(mixture(40000, 64, 2500, 500, 0.7f, 25), "a tile of the fastest"), 0.9);
  EXPECT_LT(expect_as_wgmma(mixture(20000, 33, 700, 50, 0.3f, 40), "few components"), 0.9);
  EXPECT_LT(expect_as_wgmma(mixture(6000, 1100, 300, 400, 0.5f, 15), "streamed points"), 0.2);
  EXPECT_LT(expect_as_wgmma(mixture(9000, 400, 129, 200, 0.5f, 25), "a second tile of one"), 0.5);
  expect_as_wgmma(mixture(20000, 12, 100, 300, 0.5f, 40), "few features");
  expect_as_wgmma(mixture(3000, 40, 1, 30, 0.5f, 6), "one cluster");
  expect_as_wgmma(mixture(3000, 40, 15, 30, 0.5f, 30), "none of the fastest");
}

TEST_F(CudaHamerly, WithoutStructure) {
  auto problem = mixture(30000, 96, 500, 1, 1.0f, 25);
  expect_as_wgmma(problem, "one component");
}

TEST_F(CudaHamerly, StopRulesAndWeights) {
  for (const StopRule& rule :
       {StopRule{StopRule::Kind::loss, 20.0, 60}, StopRule{StopRule::Kind::labels, 0.0, 60},
        StopRule{StopRule::Kind::shift, 1e-3, 60}}) {
    auto problem = mixture(12000, 50, 90, 120, 0.4f, 60);
    problem.stop = rule;
    EXPECT_LT(expect_as_wgmma(problem, "rule " + std::to_string(static_cast<int>(rule.kind))), 0.5);
  }
  auto problem = mixture(12000, 50, 90, 120, 0.4f, 30);
  std::mt19937 random(2);
  for (std::size_t i = 0; i < problem.n; ++i) {
    problem.weights.push_back(static_cast<float>(1 + random() % 9));
  }
  EXPECT_LT(expect_as_wgmma(problem, "weights"), 0.5);
}

/// Equal distances, empty clusters, rows of very different lengths, a mean far from the origin, and
/// numbers whose squares are none.
TEST_F(CudaHamerly, DataMadeToMislead) {
  auto ties = mixture(8000, 34, 200, 1, 1.0f, 25);
  for (auto* values : {&ties.points, &ties.centroids}) {
    for (float& value : *values) {
      value = std::nearbyint(value);
    }
  }
  expect_as_wgmma(ties, "small integers");
  auto same = mixture(8000, 64, 200, 40, 0.1f, 25);
  for (std::size_t e = 0; e < same.centroids.size(); ++e) {
    same.centroids[e] = same.points[e / 64 / 5 * 5 * 64 + e % 64];
  }
  EXPECT_LT(expect_as_wgmma(same, "each centroid five times"), 0.9);
  auto long_rows = mixture(8000, 64, 200, 150, 0.2f, 25);
  for (std::size_t e = 0; e < long_rows.points.size(); ++e) {
    long_rows.points[e] *= e / 64 % 1000 == 0 ? 300.0f : 1.0f;
  }
  expect_as_wgmma(long_rows, "a few rows 300 times as long");
  auto far = mixture(8000, 64, 200, 150, 0.2f, 25);
  for (auto* values : {&far.points, &far.centroids}) {
    for (float& value : *values) {
      value = value * 0x1p-40f + 1000.0f * 0x1p-40f;
    }
  }
  EXPECT_LT(expect_as_wgmma(far, "small numbers, and a mean far away"), 0.9);
  for (const float scale : {1e-23f, 1e19f}) {
    auto extreme = mixture(8000, 64, 200, 150, 0.2f, 12);
    for (auto* values : {&extreme.points, &extreme.centroids}) {
      for (float& value : *values) {
        value *= scale;
      }
    }
    EXPECT_EQ(expect_as_wgmma(extreme, "squares beyond float"), 1.0);
  }
}

} // namespace
} // namespace clusterbench

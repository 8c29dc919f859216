// The variants that prove their labels from float16 scores, on data made to mislead them: each
// label has to be right wherever float64, on the same float32 data, sees a gap beyond the rounding
// of the difference form. Every run is repeated and has to give the same bits.
//
// Skipped where there is no GPU. docs/certified.md has the proof, test_certified_bound its host
// part.
#include "harness/judge/verifier.hpp"
#include "impls/cuda/common/magnitudes.hpp"
#include "tests/gpu/run_on_gpu.hpp"
#include "tests/verify/rounded_run.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using Random = std::mt19937_64;

float normal(Random& random) {
  return std::normal_distribution<float>()(random);
}

OwnedProblem<float> normal_points(std::size_t n, std::size_t d, std::size_t k, std::size_t passes) {
  OwnedProblem<float> problem;
  problem.n = n;
  problem.d = d;
  problem.k = k;
  problem.stop = {StopRule::Kind::iterations, 0.0, passes};
  Random random(n + 100 * d + 10000 * k);
  problem.points.resize(n * d);
  for (float& value : problem.points) {
    value = normal(random);
  }
  problem.centroids.assign(problem.points.begin(),
                           problem.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return problem;
}

/// Sum of squared distances of the points to the centroids of their labels, in float64.
double inertia(const Problem<float>& problem, std::span<const float> centroids,
               std::span<const std::int32_t> labels) {
  double sum = 0.0;
  for (std::size_t e = 0; e < problem.n * problem.d; ++e) {
    const auto j = static_cast<std::size_t>(labels[e / problem.d]);
    const double difference = static_cast<double>(problem.points[e]) -
                              static_cast<double>(centroids[j * problem.d + e % problem.d]);
    sum += difference * difference;
  }
  return sum;
}

/// Every point lies on the bisector of two centroids, but for a relative 2^-20 or so.
void put_near_ties(OwnedProblem<float>& problem) {
  Random random(3);
  const std::size_t d = problem.d;
  for (std::size_t i = problem.k; i < problem.n; ++i) {
    const std::size_t a = random() % problem.k, b = random() % problem.k;
    const float part = 0.5f + std::ldexp(normal(random), -static_cast<int>(random() % 24));
    for (std::size_t f = 0; f < d; ++f) {
      const float from = problem.centroids[a * d + f];
      problem.points[i * d + f] = from + part * (problem.centroids[b * d + f] - from);
    }
  }
}

/// All values through a function of the value, its row and its feature.
void change(OwnedProblem<float>& problem,
            const std::function<float(float, std::size_t row, std::size_t feature)>& function) {
  for (auto* values : {&problem.points, &problem.centroids}) {
    for (std::size_t e = 0; e < values->size(); ++e) {
      (*values)[e] = function((*values)[e], e / problem.d, e % problem.d);
    }
  }
}

/// Whether rows are farther from the origin than a variant has to take, for so many clusters.
bool is_far(const Problem<float>& problem) {
  constexpr double kTaken = 2e6; // half of what kmeans_cuda_resident takes
  double spread = 0.0;
  for (std::size_t f = 0; f < problem.d; ++f) {
    cuda::FeatureSpread of_feature{};
    for (std::size_t i = 0; i < problem.n; ++i) {
      of_feature.add(problem.points[i * problem.d + f], problem.points[f]);
    }
    spread += of_feature.of(static_cast<double>(problem.n));
  }
  return !cuda::refuse_far_rows(cuda::longest_row(problem.points, problem.d), spread, problem.k,
                                kTaken)
              .empty();
}

class CudaCertified : public NamedGpuVariant {
protected:
  /// Three runs, two of one object: right, and the same to the bit.
  /// far: from the origin, where the rounding of centroids alone leads away from the float64 run.
  void expect_right(const OwnedProblem<float>& owned, const std::string& what,
                    bool far = false) const {
    SCOPED_TRACE(what + ": n=" + std::to_string(owned.n) + " d=" + std::to_string(owned.d) +
                 " k=" + std::to_string(owned.k));
    const Problem<float> problem = owned.view();
    if (problem.d > meta().max_d) { // which the harness looks at, before it asks the variant
      return;
    }
    const std::string refused = refusal_of_shape<float>(variant(), problem.shape());
    if (refused.find("the centroids need") == 0) { // more shared memory than there is
      EXPECT_GT(problem.k * problem.d, 65536U);
      return;
    }
    if (refused.find("bytes of shared memory") != std::string::npos) { // rows that stay there
      EXPECT_GT(problem.n * std::max<std::size_t>(problem.d, 32), 3000000U);
      return;
    }
    const std::string why = refusal(variant(), problem);
    if (meta().name == "kmeans_cuda_resident" && why.find("rows so far from the origin") == 0) {
      EXPECT_TRUE(is_far(problem)) << why;
      return;
    }
    ASSERT_EQ(why, "");
    const auto answer = repeated_answer(variant(), problem);
    // A single pass is judged by its labels alone: the one label in doubt of a point that outweighs
    // all others may move the objective.
    const Verdict verdict =
        problem.stop.max_iterations == 1
            ? verify_one_step(meta(), problem, answer.view())
            : verify_answer(meta(), problem, answer.view(), run_oracle(meta().family, problem));
    EXPECT_TRUE(verdict.right()) << verdict.message();
    EXPECT_FALSE(verdict.sampled);
    expect_least_inertia(problem, answer, verdict, far);
  }

  /// The labels have the least inertia that the centroids of the last pass allow, to 1e-6; several
  /// passes end with that of float64 passes between which centroids are float32, as they are here,
  /// and, near the origin, with that of the float64 run.
  static void expect_least_inertia(const Problem<float>& problem, const OwnedAnswer<float>& answer,
                                   const Verdict& verdict, bool far) {
    const std::size_t passes = answer.iterations;
    ASSERT_EQ(verdict.trace.inertia.size(), passes);
    EXPECT_LE(inertia(problem, answer.entering, answer.labels),
              verdict.trace.inertia.back() * (1 + 1e-6));
    if (passes > 1) {
      const double rounded = inertia_of_rounded_run(problem, passes);
      EXPECT_NEAR(verdict.objective, rounded, 1e-6 * rounded);
    }
    if (passes > 1 && !far) {
      EXPECT_NEAR(verdict.relative_difference, 0.0, 1e-6);
    }
  }
};

TEST_P(CudaCertified, AwkwardSizes) {
  for (const std::size_t d : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 129, 250, 768}) {
    for (const std::size_t k : {1, 2, 7, 127, 128, 129, 300}) {
      expect_right(normal_points(1501, d, k, 2), "normal");
    }
  }
  // Tiles of 16, 32 and 64 rows of kmeans_cuda_resident on 132 multiprocessors, the last ones full.
  for (const std::size_t n : {2000, 4099, 8443, 8448}) {
    for (const std::size_t d : {1, 33, 65, 129}) {
      for (const std::size_t k : {1, 16, 17, 64, 65}) {
        expect_right(normal_points(n, d, k, 2), "tiles");
      }
    }
  }
  // Two to four warpgroups of 64 rows each on 132 multiprocessors; at 17100 three of them reach
  // behind the padding.
  for (const std::size_t n : {8449, 16896, 16897, 17100, 25344, 25345}) {
    for (const std::size_t d : {65, 200}) {
      expect_right(normal_points(n, d, 129, 2), "warpgroups");
    }
    expect_right(normal_points(n, 1500, 70, 1), "streamed warpgroups");
  }
  expect_right(normal_points(70001, 128, 1000, 2), "all multiprocessors");
  // In kmeans_cuda_packed a warpgroup takes some eight times 64 rows, and its ring of rows that
  // move goes round in the first pass. Then rows that a kernel of its own moves in all passes, and
  // in the first two; there its blocks fill their lists more than once.
  expect_right(normal_points(400001, 8, 100, 4), "rows that move");
  expect_right(normal_points(1050001, 17, 90, 3), "moved apart");
  expect_right(normal_points(1100001, 14, 90, 4), "moved apart, then by the sweep");
  expect_right(normal_points(4200001, 3, 7, 2), "64 copies of the sums");
  expect_right(normal_points(300001, 4, 2100, 2), "rows in the order of pairs of clusters");
  expect_right(normal_points(50001, 100, 60, 4), "brief passes");
  expect_right(normal_points(20011, 20, 5000, 2), "more clusters");
  expect_right(normal_points(1001, 1408, 300, 2), "the most features that a block keeps");
  expect_right(normal_points(40001, 800, 300, 2), "64 points a block, on all multiprocessors");
  expect_right(normal_points(1001, 1024, 100, 2), "few clusters, 64 points a block");
  for (const std::size_t d : {1088, 1409, 1536, 2047, 4096}) { // from 1409 on rows are streamed
    for (const std::size_t k : {1, 127, 300}) {
      expect_right(normal_points(801, d, k, 2), "many features");
    }
  }
  expect_right(normal_points(40001, 1500, 130, 2), "streamed, all multiprocessors");
}

TEST_P(CudaCertified, NearTies) {
  for (const std::size_t d : {3, 32, 128, 500, 1500}) {
    auto problem = normal_points(5000, d, 150, 1);
    put_near_ties(problem);
    expect_right(problem, "near ties");
    Recorder<float> recorder(Place::device);
    if (d <= meta().max_d && meta().name != "kmeans_cuda_resident") { // which does not count them
      OnGpu<float>(variant(), problem.view()).run(recorder);
      EXPECT_LT(recorder.counters().at("certified_at_once"), 0.999) << "a tie was certified";
    }
    change(problem, [](float value, std::size_t, std::size_t) { return value + 1e4f; });
    expect_right(problem, "near ties, offset 1e4");
    change(problem, [](float value, std::size_t, std::size_t) { return (value - 1e4f) * 1e-12f; });
    expect_right(problem, "near ties, tiny");
  }
}

TEST_P(CudaCertified, TightClusters) { // most rows have some ten candidates
  for (const std::size_t d : {8, 30, 100}) {
    auto problem = normal_points(5000, d, 120, 2);
    change(problem, [](float value, std::size_t row, std::size_t feature) {
      return 3.0f * std::sin(static_cast<float>(row % 10 * 31 + feature)) + 0.02f * value;
    });
    expect_right(problem, "tight clusters");
  }
}

TEST_P(CudaCertified, ManyRowsOfTightClusters) { // more candidates than a list of 64 rows has room
  for (const auto& [d, k] : {std::pair<std::size_t, std::size_t>{8, 512}, {20, 1000}, {30, 500}}) {
    auto problem = normal_points(60000, d, k, 1);
    change(problem, [](float value, std::size_t row, std::size_t feature) {
      return 3.0f * std::sin(static_cast<float>(row % 20 * 31 + feature)) + 0.02f * value;
    });
    expect_right(problem, "tight clusters");
  }
}

TEST_P(CudaCertified, Norms) {
  for (const std::size_t d : {5, 64, 200}) {
    for (const float scale : {1e-15f, 1e-6f, 1e6f, 1e15f}) {
      auto problem = normal_points(3000, d, 200, 2);
      change(problem, [&](float value, std::size_t, std::size_t) { return value * scale; });
      expect_right(problem, "scale " + std::to_string(scale));
    }
    auto rows = normal_points(3000, d, 200, 2); // rows of very different lengths
    change(rows, [](float value, std::size_t row, std::size_t) {
      return std::ldexp(value, static_cast<int>(row % 41) - 20);
    });
    expect_right(rows, "rows of many scales");
    auto columns = normal_points(3000, d, 200, 2);
    change(columns, [](float value, std::size_t, std::size_t feature) {
      return std::ldexp(value, static_cast<int>(feature % 31) - 15);
    });
    expect_right(columns, "columns of many scales");
    auto outlier = normal_points(3000, d, 200, 1); // the rest becomes denormal in float16
    outlier.points[1000 * d] = outlier.centroids[0] = 1e9f;
    std::copy_n(outlier.points.begin() + static_cast<std::ptrdiff_t>(1000 * d + 1), d - 1,
                outlier.centroids.begin() +
                    1); // its own, or float32 could not tell which is nearest
    expect_right(outlier, "one outlier");
    auto far = normal_points(3000, d, 200, 2); // an empty cluster far beyond the data
    far.centroids[0] = 1e8f;
    expect_right(far, "a centroid far away");
  }
}

/// Of every three rows of a cluster, two cancel, and leave what is 2^40 times smaller.
OwnedProblem<float> rows_that_cancel(std::size_t d, std::size_t k) {
  auto problem = normal_points(6000, d, k, 1);
  const std::vector<float> values = problem.points;
  std::vector<std::size_t> place(problem.n);
  std::iota(place.begin(), place.end(), std::size_t{0});
  std::shuffle(place.begin(), place.end(), Random(11)); // they meet in no order
  for (std::size_t i = 0; i < problem.n; ++i) {
    float* row = &problem.points[place[i] * d];
    for (std::size_t f = 1; f < d; ++f) {
      const float value = values[i / 3 * d + f];
      row[f] = i % 3 == 0 ? 8.0f * value : i % 3 == 1 ? -8.0f * value : std::ldexp(value, -40);
    }
    row[0] = 64.0f * static_cast<float>(i / 3 % k); // which cluster
  }
  for (std::size_t e = 0; e < problem.centroids.size(); ++e) {
    problem.centroids[e] = e % d == 0 ? 64.0f * static_cast<float>(e / d) : 0.0f;
  }
  return problem;
}

TEST_P(CudaCertified, SumsThatCancel) { // no sum may be rounded on its way
  for (const auto& [d, k] : {std::pair<std::size_t, std::size_t>{5, 3}, {40, 200}, {130, 3}}) {
    const auto problem = rows_that_cancel(d, k);
    if (d > meta().max_d) {
      continue;
    }
    if (!refusal(variant(), problem.view()).empty()) {
      EXPECT_EQ(meta().name, "kmeans_cuda_resident"); // rows so far from the origin
      continue;
    }
    std::vector<double> sums(k * d);
    std::vector<double> counts(k);
    for (std::size_t i = 0; i < problem.n; ++i) {
      const auto j = static_cast<std::size_t>(problem.points[i * d] / 64.0f);
      counts[j] += 1.0;
      for (std::size_t f = 1; f < d; ++f) {
        const float value = problem.points[i * d + f];
        sums[j * d + f] += std::fabs(value) < 0x1p-30f ? static_cast<double>(value) : 0.0;
      }
    }
    const auto answer = repeated_answer(variant(), problem.view());
    for (std::size_t e = 0; e < sums.size(); ++e) {
      const double mean = sums[e] / counts[e / d];
      ASSERT_NEAR(answer.centroids[e], e % d == 0 ? 64.0 * static_cast<double>(e / d) : mean,
                  1e-6 * std::fabs(mean))
          << "d=" << d << " k=" << k << " value " << e;
    }
  }
}

TEST_P(CudaCertified, DataFarFromTheOrigin) {
  for (const float offset : {1000.0f, 1e4f, 1e6f}) {
    auto problem = normal_points(4000, 96, 300, 3);
    change(problem, [&](float value, std::size_t, std::size_t feature) {
      return value + offset * static_cast<float>(feature % 3);
    });
    expect_right(problem, "offset " + std::to_string(offset), /*far=*/true);
  }
}

TEST_P(CudaCertified, DuplicatedCentroidsAndPoints) {
  for (const std::size_t copies : {2, 150}) {
    auto problem = normal_points(3000, 40, 150, 2);
    for (std::size_t e = 0; e < problem.centroids.size(); ++e) {
      const std::size_t row = e / 40 / copies * copies;
      problem.centroids[e] = problem.points[row * 40 + e % 40];
    }
    expect_right(problem, "each centroid " + std::to_string(copies) + " times");
  }
  auto same = normal_points(500, 10, 40, 2);
  change(same, [](float, std::size_t, std::size_t feature) { return float(feature) * 0.1f; });
  expect_right(same, "all points the same");
  change(same, [](float, std::size_t, std::size_t) { return 0.0f; });
  expect_right(same, "all zero");
}

TEST_P(CudaCertified, IntegersWithExactTies) {
  auto problem = normal_points(3000, 12, 140, 1);
  Random random(5);
  for (auto* values : {&problem.points, &problem.centroids}) {
    for (float& value : *values) {
      value = static_cast<float>(static_cast<int>(random() % 7) - 3);
    }
  }
  expect_right(problem, "small integers"); // here the verifier allows no exception at all
}

TEST_P(CudaCertified, StopRules) {
  for (const StopRule& rule :
       {StopRule{StopRule::Kind::loss, 50.0, 40}, StopRule{StopRule::Kind::labels, 0.0, 40},
        StopRule{StopRule::Kind::shift, 1e-1, 40}}) {
    auto problem = normal_points(6000, 24, 33, 1);
    problem.stop = rule;
    expect_right(problem, "stop rule " + std::to_string(static_cast<int>(rule.kind)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaCertified,
                         testing::Values("kmeans_cuda_tiled", "kmeans_cuda_mma",
                                         "kmeans_cuda_wgmma", "kmeans_cuda_certified",
                                         "kmeans_cuda_hamerly", "kmeans_cuda_packed",
                                         "kmeans_cuda_out_of_core", "kmeans_cuda_resident"),
                         [](const auto& name) { return std::string(name.param); });

} // namespace
} // namespace clusterbench

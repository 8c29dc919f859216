// The variants that do a whole run in one launch, on sizes at which all multiprocessors exchange
// sums and a block works through several tiles: awkward d and k, odd n, every stop rule. Each run
// is repeated, has to give the same bits, and is judged by the verifier.
//
// Skipped where there is no GPU. Small sizes are in test_cuda_variants, for all variants.
#include "harness/judge/verifier.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace clusterbench {
namespace {

struct Size {
  std::size_t n, d, k;
};

/// Overlapping normal clouds; the initial centroids are the first points.
OwnedProblem<float> clouds(Size size, StopRule stop) {
  OwnedProblem<float> problem;
  problem.n = size.n;
  problem.d = size.d;
  problem.k = size.k;
  problem.stop = stop;
  std::mt19937_64 random(size.n + 1000 * size.d + 1000000 * size.k);
  std::normal_distribution<float> normal;
  std::vector<float> middles(std::min<std::size_t>(size.k, 7) * size.d);
  std::ranges::generate(middles, [&] { return 3.0f * normal(random); });
  problem.points.reserve(size.n * size.d);
  for (std::size_t i = 0; i < size.n; ++i) {
    const std::size_t cloud = random() % (middles.size() / size.d);
    for (std::size_t f = 0; f < size.d; ++f) {
      problem.points.push_back(middles[cloud * size.d + f] + normal(random));
    }
  }
  problem.centroids.assign(problem.points.begin(),
                           problem.points.begin() + static_cast<std::ptrdiff_t>(size.k * size.d));
  return problem;
}

class CudaFused : public NamedGpuVariant {
protected:
  bool takes(const Problem<float>& problem) const {
    return clusterbench::takes(variant(), problem);
  }

  /// Two runs of one object and one of another, all judged and equal to the bit.
  void expect_right(const OwnedProblem<float>& owned) const {
    const Problem<float> problem = owned.view();
    SCOPED_TRACE(meta().name + ": n=" + std::to_string(problem.n) +
                 " d=" + std::to_string(problem.d) + " k=" + std::to_string(problem.k) +
                 " stop=" + std::to_string(static_cast<int>(problem.stop.kind)) +
                 " m=" + std::to_string(problem.fuzzifier) +
                 (problem.memberships.empty() ? "" : " from memberships"));
    const auto answer = repeated_answer(variant(), problem);
    const Verdict verdict =
        verify_answer(meta(), problem, answer.view(), run_oracle(meta().family, problem));
    EXPECT_TRUE(verdict.right()) << verdict.message();
  }
};

TEST_P(CudaFused, AwkwardSizesOnAllMultiprocessors) {
  std::size_t taken = 0;
  for (const std::size_t d : {1, 2, 3, 7, 8, 9, 13, 37, 64, 100, 129, 256, 500, 512}) {
    for (const std::size_t k : {1, 2, 4, 5, 7, 16, 23, 29, 41, 64, 65, 100, 204, 255, 256}) {
      // At least two tiles a block, and a last one that is not full.
      const Size size{d >= 500 ? std::size_t{20011} : d >= 37 ? 70001 : 140007, d, k};
      const auto problem = clouds(size, {StopRule::Kind::iterations, 0.0, 3});
      if (takes(problem.view())) {
        expect_right(problem);
        ++taken;
      }
    }
  }
  EXPECT_GT(taken, 15u);
}

TEST_P(CudaFused, StopRules) {
  for (const Size size :
       {Size{50001, 2, 5}, Size{50001, 9, 7}, Size{50001, 100, 4}, Size{20011, 200, 5},
        Size{140007, 8, 23}, Size{140007, 37, 23}, Size{70001, 64, 64}, Size{1000003, 9, 16},
        Size{1000003, 8, 7}, Size{300001, 3, 40}, Size{100003, 2, 150}}) {
    for (const StopRule& rule :
         {StopRule{StopRule::Kind::loss, 300.0, 30}, StopRule{StopRule::Kind::labels, 0.0, 30},
          StopRule{StopRule::Kind::shift, 1e-3, 30}}) {
      const auto problem = clouds(size, rule);
      if (takes(problem.view())) {
        expect_right(problem);
      }
    }
  }
}

// Where whole boxes of points are decided at once: ties and points that are the same, clouds so far
// apart that points between them are rare, and centroids that have a long way to go.
TEST_P(CudaFused, TiesAndCloudsFarApart) {
  if (meta().family != Family::kmeans) {
    GTEST_SKIP() << "k-means only";
  }
  enum class Values { lattice, far_apart, one_start };
  for (const Size size :
       {Size{50001, 1, 5}, Size{50001, 2, 16}, Size{50001, 3, 64}, Size{50001, 2, 130},
        Size{50001, 3, 255}, Size{50001, 2, 256}, Size{70003, 6, 33}, Size{33, 2, 3}}) {
    for (const Values values : {Values::lattice, Values::far_apart, Values::one_start}) {
      auto problem = clouds(size, {StopRule::Kind::labels, 0.0, 25});
      for (std::size_t e = 0; e < problem.points.size(); ++e) {
        float& value = problem.points[e];
        if (values == Values::lattice) {
          value = std::round(value);
        } else if (values == Values::far_apart) {
          value += static_cast<float>(e / problem.d % 5) * 40.0f;
        }
      }
      std::copy_n(problem.points.begin(), problem.centroids.size(), problem.centroids.begin());
      if (values == Values::one_start) {
        for (std::size_t e = 0; e < problem.centroids.size(); ++e) {
          problem.centroids[e] = 30.0f + 0.01f * static_cast<float>(e);
        }
      }
      if (takes(problem.view())) {
        expect_right(problem);
      }
    }
  }
}

// A float16 of these values tells nothing of the clouds, a float32 does: between which centroids a
// row lies has to be settled for nearly all rows, and for many of them between several.
TEST_P(CudaFused, CloudsThatRoundingHides) {
  if (meta().family != Family::kmeans) {
    GTEST_SKIP() << "k-means only";
  }
  std::size_t taken = 0;
  // Blocks with one tile for each of their teams, and with so many that they cannot put off all of
  // them.
  for (const Size size : {Size{20011, 2, 5}, Size{20011, 9, 16}, Size{20011, 37, 7},
                          Size{300007, 8, 23}, Size{300007, 37, 64}, Size{300007, 64, 23}}) {
    auto problem = clouds(size, {StopRule::Kind::labels, 0.0, 12});
    for (float& value : problem.points) {
      value = 1000.0f + std::round(value * 100.0f) / 1024.0f; // exact
    }
    std::copy_n(problem.points.begin(), problem.centroids.size(), problem.centroids.begin());
    if (takes(problem.view())) {
      expect_right(problem);
      ++taken;
    }
  }
  EXPECT_GT(taken, 0u);
}

// What the rule compares has the same bits, too, though its values differ by far more than a sum of
// doubles holds.
TEST_P(CudaFused, LossesOfManyScalesEndTheSameWay) {
  if (meta().family != Family::kmeans || !meta().deterministic) {
    GTEST_SKIP() << "k-means with the same bits in every run only";
  }
  auto owned = clouds({50001, 3, 5}, {StopRule::Kind::loss, 1e-300, 200});
  for (std::size_t e = 0; e < owned.points.size(); ++e) {
    owned.points[e] = std::ldexp(owned.points[e], -static_cast<int>(e / owned.d % 50));
  }
  std::copy_n(owned.points.begin(), owned.centroids.size(), owned.centroids.begin());
  const Problem<float> problem = owned.view();
  if (!takes(problem)) {
    GTEST_SKIP() << "refused";
  }
  OnGpu<float> object(variant(), problem);
  const auto first = object.run_recorded();
  for (int run = 0; run < 5; ++run) {
    expect_same(object.run_recorded(), first);
  }
}

// What is not refused fits.
TEST_P(CudaFused, AsManyPointsAsItTakes) {
  if (meta().family != Family::kmeans) {
    GTEST_SKIP() << "k-means only";
  }
  constexpr std::size_t kMany = 20'000'000, kFeatures = 3;
  const auto is_taken = [&](std::size_t n) {
    return refusal_of_shape<float>(variant(), {.n = n, .d = kFeatures, .k = 2, .stop = {}}).empty();
  };
  if (!is_taken(1000) || is_taken(kMany)) {
    GTEST_SKIP() << "takes more, or not three features";
  }
  std::size_t taken = 1000, refused = kMany;
  while (refused - taken > 1) {
    const std::size_t middle = (taken + refused) / 2;
    (is_taken(middle) ? taken : refused) = middle;
  }
  auto problem = clouds({taken, kFeatures, 2}, {StopRule::Kind::iterations, 0.0, 2});
  std::ranges::replace(problem.points, 0.0f, 1.0f); // which some do not take
  if (!takes(problem.view())) {
    GTEST_SKIP() << "takes the shape, but not these points";
  }
  expect_right(problem);
}

// More boxes than a multiprocessor has room for, so that little of them is in shared memory: as
// many points as are taken with four lanes to a box.
TEST(CudaBoxes, ManyPoints) {
  const std::string name = "kmeans_cuda_boxes";
  if (const std::string why = why_skipped(name); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const RegisteredVariant& boxes = built_variant(name);
  std::size_t most = 1000, refused = std::size_t{1} << 29;
  while (refused - most > 1) {
    const std::size_t middle = (most + refused) / 2;
    const Shape shape{.n = middle, .d = 2, .k = 65, .stop = {}};
    (refusal_of_shape<float>(boxes, shape).empty() ? most : refused) = middle;
  }
  struct Case {
    Size size;
    StopRule stop;
  };
  const StopRule two_passes{StopRule::Kind::iterations, 0.0, 2};
  for (const auto& [size, stop] :
       {Case{{most, 2, 65}, two_passes}, Case{{most, 1, 5}, two_passes},
        Case{{most / 2, 8, 2}, two_passes}, Case{{most, 2, 3}, {StopRule::Kind::labels, 0.0, 3}},
        Case{{most, 2, 3}, {StopRule::Kind::loss, 1.0, 3}},
        Case{{most, 2, 70}, {StopRule::Kind::loss, 1.0, 2}}}) {
    const auto owned = clouds(size, stop);
    const Problem<float> problem = owned.view();
    SCOPED_TRACE("d=" + std::to_string(size.d) + " k=" + std::to_string(size.k) +
                 " stop=" + std::to_string(static_cast<int>(stop.kind)));
    EXPECT_EQ(OnGpu<float>(boxes, problem).chosen_path(), "boxes and labels in memory");
    const auto answer = repeated_answer(boxes, problem);
    const Verdict verdict =
        verify_answer(boxes.meta, problem, answer.view(), run_oracle(Family::kmeans, problem));
    EXPECT_TRUE(verdict.right()) << verdict.message();
  }
}

// Sums in integers: more points a block than its cells hold, values far beneath the largest, and
// zeros; with few points for so many passes that hardly any moves.
TEST_P(CudaFused, ManyClustersAndValuesOfManyScales) {
  if (meta().family != Family::kmeans) {
    GTEST_SKIP() << "k-means only";
  }
  enum class Values { normal, of_many_scales, sparse };
  for (const Size size :
       {Size{300001, 8, 200}, Size{300001, 3, 256}, Size{50001, 9, 7}, Size{500001, 64, 64}}) {
    for (const Values values : {Values::normal, Values::of_many_scales, Values::sparse}) {
      const std::size_t passes = size.n < 100000 ? 12 : 2;
      auto problem = clouds(size, {StopRule::Kind::iterations, 0.0, passes});
      for (std::size_t e = 0; e < problem.points.size(); ++e) {
        float& value = problem.points[e];
        if (values == Values::of_many_scales) {
          value = std::ldexp(value, -static_cast<int>(e / problem.d % 50));
        } else if (values == Values::sparse) {
          value = std::max(value, 0.0f);
        }
      }
      std::copy_n(problem.points.begin(), problem.centroids.size(), problem.centroids.begin());
      if (takes(problem.view())) {
        expect_right(problem);
      }
    }
  }
}

// A cluster that loses, in some ten passes, all rows in which the first feature is not zero, and
// keeps as many others: its mean is zero, and not what a sum that is kept from pass to pass was
// rounded by.
TEST_P(CudaFused, AMeanOfZero) {
  if (meta().family != Family::kmeans) {
    GTEST_SKIP() << "k-means only";
  }
  std::size_t taken = 0;
  for (const Size size : {Size{50001, 2, 5}, Size{50001, 8, 7}, Size{140007, 9, 12},
                          Size{140007, 37, 23}, Size{70001, 64, 12}}) {
    OwnedProblem<float> problem;
    problem.n = size.n;
    problem.d = size.d;
    problem.k = size.k;
    problem.stop = {StopRule::Kind::iterations, 0.0, 20};
    std::mt19937_64 random(size.n + size.d);
    std::normal_distribution<float> normal(1.0f, 0.1f);
    std::uniform_real_distribution<float> uniform(2.0f, 12.0f);
    for (std::size_t e = 0; e < size.n * size.d; ++e) {
      problem.points.push_back(e % size.d > 0      ? normal(random)
                               : random() % 2 == 0 ? 0.0f
                                                   : uniform(random));
    }
    for (std::size_t j = 0; j < size.k; ++j) { // one near zero, the others far from it
      problem.centroids.push_back(
          j == 0 ? 1.5f : 10.0f + 2.0f * static_cast<float>(j) / static_cast<float>(size.k));
      problem.centroids.insert(problem.centroids.end(), size.d - 1, 1.0f);
    }
    if (takes(problem.view())) {
      expect_right(problem);
      OnGpu<float> object(variant(), problem.view());
      for (int run = 0; run < 2; ++run) {
        EXPECT_EQ(object.run().centroids[0], 0.0f);
      }
      ++taken;
    }
  }
  EXPECT_GT(taken, 0u);
}

// Blocks tell new words from old ones by their stamps, or go on where the run before has ended:
// short runs after one another must not mix. With many sums of all blocks, with few, and with few
// blocks: they are exchanged in other ways.
TEST_P(CudaFused, ManyShortRunsOfOneObject) {
  unsigned taken = 0;
  for (const auto& [n, d] : {std::pair<std::size_t, std::size_t>{30001, 9},
                             {30001, 200},
                             {150001, 3},
                             {150001, 1},
                             {3001, 9}}) {
    for (const StopRule& rule :
         {StopRule{StopRule::Kind::iterations, 0.0, 1}, StopRule{StopRule::Kind::labels, 0.0, 2},
          StopRule{StopRule::Kind::loss, 0.0, 3}, StopRule{StopRule::Kind::shift, 0.0, 5}}) {
      SCOPED_TRACE(std::to_string(n) + " points of " + std::to_string(d) +
                   " features, stop=" + std::to_string(static_cast<int>(rule.kind)));
      const OwnedProblem<float> owned = clouds({n, d, 4}, rule);
      const Problem<float> problem = owned.view();
      if (!takes(problem)) {
        continue;
      }
      ++taken;
      OnGpu<float> object(variant(), problem);
      const auto first = object.run_recorded();
      for (int tens = 0; tens < 20 && !HasFailure(); ++tens) {
        for (int run = 0; run < 9; ++run) {
          object.run();
        }
        expect_same(object.run_recorded(), first);
      }
    }
  }
  ASSERT_GT(taken, 0u);
}

TEST_P(CudaFused, FuzzifiersAndInitialMemberships) {
  if (meta().family != Family::fcm) {
    GTEST_SKIP() << "fuzzy c-means only";
  }
  for (const Size size : {Size{30001, 3, 3}, Size{30001, 100, 8}, Size{10007, 500, 8}}) {
    if (!takes(clouds(size, {}).view())) {
      continue;
    }
    for (const double fuzzifier : {2.0, 1.7, 3.0}) {
      for (const StopRule& rule :
           {StopRule{StopRule::Kind::iterations, 0.0, 3}, StopRule{StopRule::Kind::loss, 100.0, 12},
            StopRule{StopRule::Kind::shift, 1e-2, 12}}) {
        auto problem = clouds(size, rule);
        problem.fuzzifier = fuzzifier;
        expect_right(problem);
        problem.centroids.clear();
        std::mt19937_64 random(size.n);
        for (std::size_t i = 0; i < size.n; ++i) {
          std::vector<float> row(size.k);
          float sum = 0.0f;
          for (float& membership : row) {
            membership = 0.05f + static_cast<float>(random() % 1000) / 1000.0f;
            sum += membership;
          }
          for (const float membership : row) {
            problem.memberships.push_back(membership / sum);
          }
        }
        expect_right(problem);
      }
    }
  }
}

// Weights of a centre far away are far below what a part in float16 holds.
TEST_P(CudaFused, ACentreFarAway) {
  if (meta().family != Family::fcm) {
    GTEST_SKIP() << "fuzzy c-means only";
  }
  for (const double fuzzifier : {2.0, 1.5}) {
    for (const StopRule& rule :
         {StopRule{StopRule::Kind::iterations, 0.0, 1},
          StopRule{StopRule::Kind::iterations, 0.0, 4}, StopRule{StopRule::Kind::labels, 0.0, 6}}) {
      auto problem = clouds({20011, 200, 4}, rule);
      problem.fuzzifier = fuzzifier;
      for (std::size_t f = 0; f < problem.d; ++f) {
        problem.centroids[2 * problem.d + f] = 3000.0f + static_cast<float>(f);
      }
      expect_right(problem);
    }
  }
}

// float16 ends early: a variant that splits into such parts takes a wide range, or says why not.
TEST_P(CudaFused, RangesOfValues) {
  if (meta().family != Family::fcm) {
    GTEST_SKIP() << "fuzzy c-means only";
  }
  for (const float scale : {1e-12f, 1e-3f, 1e4f, 1e12f}) {
    auto problem = clouds({20011, 200, 4}, {StopRule::Kind::iterations, 0.0, 3});
    for (float& value : problem.points) {
      value *= scale;
    }
    for (float& value : problem.centroids) {
      value *= scale;
    }
    ASSERT_TRUE(takes(problem.view()));
    expect_right(problem);
  }
  if (meta().name == "fcm_cuda_split") { // squares that overflow, scales that underflow
    for (const float scale : {1e-18f, 1e19f}) {
      auto problem = clouds({20011, 200, 4}, {StopRule::Kind::iterations, 0.0, 3});
      std::ranges::transform(problem.points, problem.points.begin(),
                             [=](float value) { return value * scale; });
      EXPECT_FALSE(takes(problem.view())) << scale;
    }
  }
  auto problem = clouds({20011, 200, 4}, {StopRule::Kind::iterations, 0.0, 3});
  for (std::size_t i = 0; i < problem.n; ++i) { // a feature a thousand times the others
    problem.points[i * problem.d + 5] *= 1e3f;
  }
  problem.centroids.assign(problem.points.begin(), problem.points.begin() + 4 * 200);
  ASSERT_TRUE(takes(problem.view()));
  expect_right(problem);
  for (std::size_t i = 0; i < problem.n; ++i) { // and a million times
    problem.points[i * problem.d + 5] *= 1e3f;
  }
  problem.centroids.assign(problem.points.begin(), problem.points.begin() + 4 * 200);
  if (meta().name == "fcm_cuda_split") {
    EXPECT_FALSE(takes(problem.view()));
  } else {
    ASSERT_TRUE(takes(problem.view()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaFused,
                         testing::Values("kmeans_cuda_persistent", "kmeans_cuda_moves",
                                         "kmeans_cuda_boxes", "kmeans_cuda_cells",
                                         "kmeans_cuda_fused", "kmeans_cuda_fused_wgmma",
                                         "kmeans_cuda_moves_wgmma", "kmeans_cuda_half_rows",
                                         "fcm_cuda_fused", "fcm_cuda_split"),
                         [](const auto& name) { return std::string(name.param); });

} // namespace
} // namespace clusterbench

// Fuzzy c-means of any shape on a GPU: 1 to 2048 features, 1 to 256 clusters, fuzzifiers from 1.1
// to 3, float and double. No shape is refused by all, every answer is judged, and each run is
// repeated and has to give the same bits.
//
// Skipped where there is no GPU. CLUSTERBENCH_GPU_SUBSET=small leaves out the larger sizes.
#include "harness/judge/collapse.hpp"
#include "harness/judge/verifier.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <type_traits>

namespace clusterbench {
namespace {

struct Size {
  std::size_t n, d, k;
};

/// Overlapping normal clouds; the initial centres are the first points, so the first pass has
/// points that sit on a centre.
template <typename T>
OwnedProblem<T> clouds(Size size, double fuzzifier, StopRule stop, double apart = 3.0) {
  OwnedProblem<T> problem;
  problem.n = size.n;
  problem.d = size.d;
  problem.k = size.k;
  problem.fuzzifier = fuzzifier;
  problem.stop = stop;
  std::mt19937_64 random(size.n + 1000 * size.d + 1000000 * size.k);
  std::normal_distribution<double> normal;
  std::vector<double> middles(std::min<std::size_t>(size.k, 7) * size.d);
  std::ranges::generate(middles, [&] { return apart * normal(random); });
  for (std::size_t i = 0; i < size.n; ++i) {
    const std::size_t cloud = random() % (middles.size() / size.d);
    for (std::size_t f = 0; f < size.d; ++f) {
      problem.points.push_back(static_cast<T>(middles[cloud * size.d + f] + normal(random)));
    }
  }
  problem.centroids.assign(problem.points.begin(),
                           problem.points.begin() + static_cast<std::ptrdiff_t>(size.k * size.d));
  return problem;
}

/// The same from memberships, of which no row is certain.
template <typename T>
OwnedProblem<T> from_memberships(OwnedProblem<T> problem) {
  problem.centroids.clear();
  std::mt19937_64 random(problem.n);
  for (std::size_t i = 0; i < problem.n; ++i) {
    std::vector<double> row(problem.k);
    double sum = 0.0;
    for (double& membership : row) {
      membership = 0.05 + static_cast<double>(random() % 1000) / 1000.0;
      sum += membership;
    }
    for (const double membership : row) {
      problem.memberships.push_back(static_cast<T>(membership / sum));
    }
  }
  return problem;
}

const StopRule kTwoPasses{StopRule::Kind::iterations, 0.0, 2};

class CudaFuzzy : public NamedGpuVariant {
protected:
  /// False if the variant refuses the problem. Else judges its answer; centres that are apart in it
  /// are left in `apart`.
  template <typename T>
  bool expect_right(const OwnedProblem<T>& owned, std::size_t* apart = nullptr) const {
    const Problem<T> problem = owned.view();
    SCOPED_TRACE(testing::Message()
                 << meta().name << ": n " << problem.n << ", d " << problem.d << ", c " << problem.k
                 << ", m " << problem.fuzzifier << ", " << 8 * sizeof(T) << " bits, stop "
                 << static_cast<int>(problem.stop.kind)
                 << (problem.memberships.empty() ? "" : ", from memberships"));
    if (!takes(variant(), problem)) {
      EXPECT_EQ(meta().name, "fcm_cuda_lanes"); // alone leaves shapes to others
      return false;
    }
    const auto answer = repeated_answer(variant(), problem);
    const Verdict verdict =
        verify_answer(meta(), problem, answer.view(), run_oracle(Family::fcm, problem));
    EXPECT_TRUE(verdict.right()) << verdict.message();
    if (apart != nullptr) {
      *apart = centres_apart<T>(problem, answer.centroids);
    }
    return true;
  }

  /// In both precisions.
  void expect_right(Size size, double fuzzifier, StopRule stop = kTwoPasses) const {
    expect_right(clouds<float>(size, fuzzifier, stop));
    expect_right(clouds<double>(size, fuzzifier, stop));
  }
};

// Every width of a team of lanes and of a tile, just full, one more, and the ends of the range.
TEST_P(CudaFuzzy, FeaturesAndClusters) {
  for (const std::size_t d : {1, 2, 3, 8, 9, 16, 32, 33, 64, 65, 129}) {
    for (const std::size_t k : {1, 4, 5, 16, 17, 64, 65, 255, 256}) {
      expect_right({263, d, k}, 2.0);
    }
  }
  expect_right({263, 112, 128}, 2.0);
  expect_right({263, 128, 128}, 2.0);
}

TEST_P(CudaFuzzy, ManyFeatures) {
  for (const std::size_t d : {256, 257, 511, 1000, 1025, 2048}) {
    for (const std::size_t k : {2, 7, 8, 16, 17, 256}) {
      expect_right({k == 256 ? std::size_t{257} : 67, d, k}, 2.0,
                   {StopRule::Kind::iterations, 0.0, 1});
    }
  }
}

TEST_P(CudaFuzzy, FewerRowsThanABlockHas) {
  for (const Size size : {Size{1, 1, 1}, Size{1, 40, 1}, Size{2, 3, 2}, Size{3, 2048, 2},
                          Size{5, 7, 5}, Size{17, 19, 16}, Size{33, 9, 31}}) {
    expect_right(size, 2.0);
  }
}

TEST_P(CudaFuzzy, Fuzzifiers) {
  for (const double fuzzifier : {1.1, 1.5, 2.5, 3.0}) {
    for (const Size size : {Size{501, 1, 2}, Size{501, 3, 255}, Size{501, 8, 16}, Size{501, 20, 3},
                            Size{301, 100, 6}, Size{301, 37, 40}, Size{101, 500, 12}}) {
      expect_right(size, fuzzifier);
    }
  }
}

TEST_P(CudaFuzzy, StopRulesAndInitialMemberships) {
  for (const Size size :
       {Size{3001, 2, 3}, Size{3001, 20, 11}, Size{1001, 70, 70}, Size{501, 600, 5}}) {
    for (const double fuzzifier : {2.0, 1.3}) {
      for (const StopRule& rule :
           {StopRule{StopRule::Kind::iterations, 0.0, 3}, StopRule{StopRule::Kind::loss, 20.0, 8},
            StopRule{StopRule::Kind::labels, 0.0, 8}, StopRule{StopRule::Kind::shift, 1e-2, 8}}) {
        expect_right(clouds<float>(size, fuzzifier, rule));
        expect_right(from_memberships(clouds<float>(size, fuzzifier, rule)));
        expect_right(from_memberships(clouds<double>(size, fuzzifier, rule)));
      }
    }
  }
}

// Whole columns on centres, and centres that are the same.
TEST_P(CudaFuzzy, PointsOnCentres) {
  for (const Size size :
       {Size{300, 1, 4}, Size{300, 12, 7}, Size{300, 40, 33}, Size{70, 2048, 3}}) {
    for (const double fuzzifier : {2.0, 1.1, 3.0}) {
      auto problem = clouds<float>(size, fuzzifier, kTwoPasses);
      for (std::size_t e = 0; e < problem.points.size(); ++e) { // some five of each
        problem.points[e] = problem.points[e % (size.n / 5 * size.d)];
      }
      std::ranges::copy_n(problem.centroids.begin(), static_cast<std::ptrdiff_t>(size.d),
                          problem.centroids.begin() + static_cast<std::ptrdiff_t>(size.d));
      expect_right(problem);
    }
  }
}

// Beyond the bounds of sums of inverse squared distances (fuzzy_run.cuh), and near them.
TEST_P(CudaFuzzy, AnyUnit) {
  const auto scaled = [](auto problem, double unit) {
    for (auto* values : {&problem.points, &problem.centroids}) {
      for (auto& value : *values) {
        value = static_cast<std::remove_reference_t<decltype(value)>>(value * unit);
      }
    }
    return problem;
  };
  for (const Size size : {Size{301, 2, 5}, Size{301, 7, 64}, Size{301, 40, 33}}) {
    for (const double fuzzifier : {2.0, 1.5}) {
      for (const double unit : {3e-16, 1e-9, 1e9, 1e15}) {
        expect_right(scaled(clouds<float>(size, fuzzifier, kTwoPasses), unit));
      }
      for (const double unit : {1e-140, 3e-136, 1e-134, 1e120, 1e140}) {
        expect_right(scaled(clouds<double>(size, fuzzifier, kTwoPasses), unit));
      }
    }
  }
}

TEST_P(CudaFuzzy, CollapseIsSeen) {
  std::size_t apart = 0;
  const StopRule rule{StopRule::Kind::iterations, 0.0, 60};
  if (expect_right(clouds<float>({400, 64, 4}, 3.0, rule, 0.3), &apart)) {
    EXPECT_EQ(apart, 1u);
  }
  if (expect_right(clouds<double>({400, 64, 4}, 1.1, rule), &apart)) {
    EXPECT_EQ(apart, 4u);
  }
}

TEST_P(CudaFuzzy, AllMultiprocessors) {
  if (std::getenv("CLUSTERBENCH_GPU_SUBSET") != nullptr) {
    GTEST_SKIP() << "not in the small subset";
  }
  for (const Size size :
       {Size{200003, 1, 2}, Size{200003, 3, 5}, Size{100003, 7, 100}, Size{100003, 21, 16},
        Size{50021, 64, 8}, Size{30011, 130, 40}, Size{20011, 700, 8}}) {
    expect_right(size, 2.0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaFuzzy,
                         testing::Values("fcm_cuda_lanes", "fcm_cuda_tiles", "fcm_cuda_auto"),
                         [](const auto& name) { return std::string(name.param); });

} // namespace
} // namespace clusterbench

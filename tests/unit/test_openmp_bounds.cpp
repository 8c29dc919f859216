// The variants that skip distances: after every pass the same labels and the same bits of the
// centroids as a pass that starts afresh, without a bound, from the same centroids. That pass
// itself is held against a plain reference by test_cpu_variants.
#include "impls/openmp/support/moving_sums.hpp"
#include "impls/openmp/support/slack.hpp"
#include "tests/built_variants.hpp"
#include "tests/unit/bounds_cases.hpp"

namespace clusterbench {
namespace {

const std::vector<std::string> kNames = {"kmeans_openmp_hamerly", "kmeans_openmp_elkan",
                                         "kmeans_openmp_yinyang"};

template <typename T>
std::unique_ptr<Variant<T>> make(const std::string& name) {
  return variant_tests::make<T>(built_variant(name));
}

template <typename T>
OwnedAnswer<T> answer_of(const std::string& name, const Case<T>& test, const std::vector<T>& from,
                         const StopRule& stop, int threads) {
  return answer_of<T>(*make<T>(name), test, from, stop, threads);
}

template <typename T>
class OpenmpBounds : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(OpenmpBounds, Precisions);

TYPED_TEST(OpenmpBounds, EveryPassIsAPassWithoutBounds) {
  using T = TypeParam;
  double evaluated = 0.0, all = 0.0;
  for (const Case<T>& test : cases<T>()) {
    SCOPED_TRACE(test.what + ", n " + std::to_string(test.n) + ", d " + std::to_string(test.d) +
                 ", k " + std::to_string(test.k));
    std::vector<OwnedAnswer<T>> plain; // one pass each
    std::vector<T> entering = test.centroids;
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      plain.push_back(answer_of<T>(kNames[0], test, entering, passes(1), 1));
      entering = plain.back().centroids;
    }
    for (const std::string& name : kNames) {
      for (const int threads : {1, 2}) {
        // Labels are known of the last pass only, so a few runs of different lengths.
        for (const std::size_t pass : {std::size_t{1}, std::size_t{4}, kPasses - 1}) {
          if (threads == 2 && (pass + 1 < kPasses || test.k < 40)) { // threads differ in sums only
            continue;
          }
          const OwnedAnswer<T> answer =
              answer_of<T>(name, test, test.centroids, passes(pass + 1), threads);
          ASSERT_EQ(answer.labels, plain[pass].labels) << name << ", pass " << pass;
          for (std::size_t before = 0; before <= pass; ++before) {
            ASSERT_EQ(answer.recorder.passes[before], plain[before].centroids)
                << name << ", pass " << before;
          }
          if (pass + 1 == kPasses) {
            for (const double count : answer.recorder.distances) {
              evaluated += count;
              all += static_cast<double>(test.n * test.k);
            }
          }
        }
      }
    }
  }
  EXPECT_LT(evaluated, 0.6 * all); // or nothing was skipped, and nothing was tested
}

TYPED_TEST(OpenmpBounds, EveryRuleStopsAtTheSamePass) {
  using T = TypeParam;
  const Case<T> test = drawn<T>("heaps", 701, 5, 20, 25, 0.0, 1.0, 0.0);
  for (const StopRule& rule :
       {StopRule{.kind = StopRule::Kind::labels, .max_iterations = 100},
        StopRule{.kind = StopRule::Kind::loss, .threshold = 1.0, .max_iterations = 100},
        StopRule{.kind = StopRule::Kind::shift, .threshold = 1e-2, .max_iterations = 100}}) {
    const OwnedAnswer<T> plain = answer_of<T>("kmeans_serial", test, test.centroids, rule, 1);
    EXPECT_GT(plain.recorder.passes.size(), 2u);
    for (const std::string& name : kNames) {
      const OwnedAnswer<T> answer = answer_of<T>(name, test, test.centroids, rule, 2);
      EXPECT_EQ(answer.recorder.passes.size(), plain.recorder.passes.size()) << name;
      EXPECT_EQ(answer.labels, plain.labels) << name;
    }
  }
}

TYPED_TEST(OpenmpBounds, TheCountIsThatOfTheDocumentation) {
  using T = TypeParam;
  const Case<T> test = drawn<T>("heaps", 400, 3, 40, 40, 0.0, 1.0, 0.0);
  for (const std::string& name : kNames) {
    const std::vector<double> counts =
        answer_of<T>(name, test, test.centroids, passes(40), 2).recorder.distances;
    ASSERT_EQ(counts.size(), 40u);
    // Every point with every centroid, the ways of the centroids, and the grouping.
    EXPECT_EQ(counts.front(), 400 * 40 + 40 + (name == kNames[2] ? 5 * 40 * 4 : 0)) << name;
    // Nothing moves any more: the ways of the centroids, and the distances between them.
    EXPECT_EQ(counts.back(), 40 + (name == kNames[2] ? 0 : 40 * 39 / 2)) << name;
  }
}

TEST(OpenmpElkan, RefusesBoundsThatTakeTooMuchMemory) {
  Shape shape;
  shape.n = 1'100'000;
  shape.d = 2;
  shape.k = 1000;
  EXPECT_NE(make<float>("kmeans_openmp_elkan")->refuse(shape), "");
  shape.n = 1'000'000;
  EXPECT_EQ(make<float>("kmeans_openmp_elkan")->refuse(shape), "");
}

// Float only: long double is exact enough beside it.
TEST(OpenmpSlack, BoundsHoldForTheExactDistance) {
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal;
  for (const std::size_t d : {1, 3, 16, 17, 100, 1000}) {
    const openmp::Slack<float> slack(d);
    const openmp::Distances<float> distances(d, 1);
    for (const float scale : {1e-30f, 1e-22f, 1e-19f, 1.0f, 1e15f}) {
      for (int draw = 0; draw < 200; ++draw) {
        std::vector<float> x(d), y(d);
        std::ranges::generate(x, [&] { return scale * normal(random); });
        std::ranges::transform(x, y.begin(), [&](float value) {
          return draw % 2 == 0 ? scale * normal(random) : value * (1.0f + 1e-4f * normal(random));
        });
        long double exact = 0.0L;
        for (std::size_t f = 0; f < d; ++f) {
          const long double difference = static_cast<long double>(x[f]) - y[f];
          exact += difference * difference;
        }
        exact = std::sqrt(exact);
        const float squared = distances.between(x.data(), y.data());
        EXPECT_GE(slack.upper(squared), exact) << "d " << d << ", scale " << scale;
        EXPECT_LE(slack.lower(squared), exact) << "d " << d << ", scale " << scale;
        const float way = scale * std::abs(normal(random));
        EXPECT_GE(static_cast<long double>(slack.plus(slack.upper(squared), way)), exact + way);
        EXPECT_LE(static_cast<long double>(slack.since(slack.lower(squared), way)), exact + way);
        EXPECT_LE(static_cast<long double>(slack.minus(slack.lower(squared), way)),
                  std::max(exact - way, 0.0L));
        EXPECT_GT(slack.must_exceed(slack.upper(squared)), slack.upper(squared));
      }
    }
  }
}

// A hundred thousand points come and go; the mean of the one that stays is that point.
TEST(OpenmpMovingSums, WhatLeavesLeavesNoTrace) {
  struct Part {
    openmp::MovingSums<double> sums;
  };
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(1e5, 3e4);
  const std::size_t d = 3;
  std::vector<Part> parts(2, Part{openmp::MovingSums<double>(d, 1)});
  std::vector<double> points(100'000 * d);
  std::ranges::generate(points, [&] { return normal(random); });
  const std::vector<double> stays = {0.1, -1e-7, 3.0};
  parts[1].sums.join(0, stays.data());
  for (std::size_t i = 0; i < points.size(); i += d) {
    parts[i / d % 2].sums.join(0, &points[i]);
  }
  for (std::size_t i = 0; i < points.size(); i += d) {
    parts[i / d % 2].sums.leave(0, &points[i]);
  }
  openmp::MovingCentroids<double> centroids(d, 1);
  centroids.start(std::vector<double>(d, 7.0));
  centroids.update(parts);
  for (std::size_t f = 0; f < d; ++f) { // sums in one word are off by more than 1e-7
    EXPECT_NEAR(centroids.now()[f], stays[f], 1e-15);
  }
  EXPECT_GT(centroids.moved()[0], 0.0);
}

} // namespace
} // namespace clusterbench

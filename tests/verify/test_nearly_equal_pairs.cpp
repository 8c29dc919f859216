// The start of nearly equal pairs tells products of numbers with fewer digits from those of the
// data's own, on data where nothing else shows them; and honest variants pass.
#include "harness/judge/nearly_equal_pairs.hpp"
#include "harness/judge/verifier.hpp"
#include "tests/verify/narrow_pass.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

enum class Kind { clusters, positive, centred, far, very_far };

template <typename T>
OwnedProblem<T> data(Kind kind, std::size_t d, std::size_t k) {
  OwnedProblem<T> owned;
  owned.n = 1500;
  owned.d = d;
  owned.k = k;
  owned.stop = {StopRule::Kind::iterations, 0.0, 1};
  std::mt19937_64 random(d + k);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<double> middles(16 * d);
  for (double& middle : middles) {
    middle = 20.0 * normal(random);
  }
  for (std::size_t i = 0; i < owned.n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      const double value = kind == Kind::clusters   ? middles[i % 16 * d + f] + normal(random)
                           : kind == Kind::positive ? uniform(random)
                           : kind == Kind::centred  ? 2.0 * uniform(random) - 1.0
                           : kind == Kind::far      ? 1e4 + normal(random)
                                                    : 1e6 + normal(random);
      owned.points.push_back(static_cast<T>(value));
    }
  }
  owned.centroids.assign(owned.points.begin(),
                         owned.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return owned;
}

constexpr DistanceForm kForms[] = {DistanceForm::difference, DistanceForm::expanded};

template <typename T>
Verdict judge(Family family, DistanceForm form, const Problem<T>& problem,
              const OwnedAnswer<T>& answer) {
  return verify_one_step(meta_of(family, form), problem, answer.view(),
                         {.judges_precision = false});
}

/// Calls body(name, problem from the pairs, pairs) for all data.
template <typename T, typename Body>
void for_all_data(const std::vector<std::size_t>& dimensions, const Body& body) {
  for (const Kind kind :
       {Kind::clusters, Kind::positive, Kind::centred, Kind::far, Kind::very_far}) {
    for (const std::size_t d : dimensions) {
      for (const std::size_t k : {2U, 3U, 16U}) {
        auto owned = data<T>(kind, d, k);
        const auto pairs = nearly_equal_pairs(owned.view(), 7);
        ASSERT_EQ(pairs.centroids.size(), k * d);
        owned.centroids = pairs.centroids;
        const std::string name = "data " + std::to_string(static_cast<int>(kind)) +
                                 " d=" + std::to_string(d) + " k=" + std::to_string(k);
        body(name, owned.view(), pairs);
      }
    }
  }
}

template <typename T>
void expect_narrow_labels_found(const std::vector<int>& digits) {
  for_all_data<T>(
      {1, 2, 9, 40, 128}, [&](const auto& name, const auto& problem, const auto& pairs) {
        EXPECT_GT(pairs.telling_share, 0.0) << name;
        for (const DistanceForm form : kForms) {
          const Verdict honest =
              judge(Family::kmeans, form, problem, solve(meta_of(Family::kmeans, form), problem));
          EXPECT_TRUE(honest.right()) << name << "\n" << honest.message();
          for (const int count : digits) {
            for (const bool narrow_norms : {false, true}) {
              const auto answer = narrow_pass(problem, count, narrow_norms);
              EXPECT_TRUE(finds(judge(Family::kmeans, form, problem, answer), "labels"))
                  << name << ", " << count << " digits";
            }
          }
        }
      });
}

TEST(NearlyEqualPairs, showNarrowProductsOfFloats) {
  expect_narrow_labels_found<float>({kTf32Digits, kBf16Digits});
}
TEST(NearlyEqualPairs, showNarrowProductsOfDoubles) {
  expect_narrow_labels_found<double>({kFloatDigits, kTf32Digits, kBf16Digits});
}

TEST(NearlyEqualPairs, showThemWhereTheOwnStartDoesNot) {
  const auto owned = data<float>(Kind::clusters, 40, 16);
  for (const int digits : {kTf32Digits, kBf16Digits}) {
    const auto answer = narrow_pass(owned.view(), digits, true);
    EXPECT_TRUE(judge(Family::kmeans, DistanceForm::difference, owned.view(), answer).right());
  }
}

TEST(NearlyEqualPairs, leaveDeclaredArithmeticAlone) {
  for_all_data<float>({9}, [](const auto& name, const auto& problem, const auto&) {
    Meta meta = meta_of(Family::kmeans, DistanceForm::expanded);
    meta.arithmetic = Arithmetic::tf32;
    const Verdict verdict = verify_one_step(
        meta, problem, narrow_pass(problem, kTf32Digits, true).view(), {.judges_precision = false});
    EXPECT_TRUE(verdict.right()) << name << "\n" << verdict.message();
  });
}

/// As narrow_pass(), for fuzzy c-means: memberships from narrow products, centres left as they
/// were.
OwnedAnswer<float> narrow_memberships(const Problem<float>& problem, int digits) {
  const std::size_t d = problem.d;
  OwnedAnswer<float> answer = solve(meta_of(Family::fcm), problem);
  answer.recorded.clear();
  std::vector<double> squared(problem.k);
  for (std::size_t i = 0; i < problem.n; ++i) {
    for (std::size_t j = 0; j < problem.k; ++j) {
      squared[j] = 0.0;
      for (std::size_t f = 0; f < d; ++f) {
        const double x = static_cast<double>(problem.points[i * d + f]);
        const double c = static_cast<double>(problem.centroids[j * d + f]);
        squared[j] += x * x + c * c - 2.0 * with_digits(x, digits) * with_digits(c, digits);
      }
    }
    double sum = 0.0;
    for (const double value : squared) {
      sum += 1.0 / value;
    }
    for (std::size_t j = 0; j < problem.k; ++j) {
      answer.memberships[i * problem.k + j] = static_cast<float>(1.0 / squared[j] / sum);
    }
  }
  return answer;
}

TEST(NearlyEqualPairs, showNarrowMemberships) {
  for_all_data<float>({2, 9, 40}, [](const auto& name, const auto& problem, const auto&) {
    for (const DistanceForm form : kForms) {
      const Verdict honest =
          judge(Family::fcm, form, problem, solve(meta_of(Family::fcm, form), problem));
      EXPECT_TRUE(honest.right()) << name << "\n" << honest.message();
      EXPECT_TRUE(
          finds(judge(Family::fcm, form, problem, narrow_memberships(problem, 11)), "memberships"))
          << name;
    }
  });
}

TEST(NearlyEqualPairs, sayWhereTheyTellNothing) {
  // One cluster; points at the origin; so many features that float rounding may do the same.
  EXPECT_EQ(nearly_equal_pairs(data<float>(Kind::positive, 3, 1).view(), 1).telling_share, 0.0);
  auto zero = data<float>(Kind::positive, 3, 4);
  zero.points.assign(zero.points.size(), 0.0F);
  const auto pairs = nearly_equal_pairs(zero.view(), 1);
  EXPECT_EQ(pairs.telling_share, 0.0);
  EXPECT_EQ(pairs.centroids, std::vector<float>(12));
  EXPECT_EQ(nearly_equal_pairs(data<float>(Kind::centred, 3000, 2).view(), 1).telling_share, 0.0);
}

} // namespace
} // namespace clusterbench

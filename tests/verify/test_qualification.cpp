// The qualification problems have the sizes that matter, and a second start that shows whoever
// hands over the answer of the first again.
#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

TEST(Qualification, hasDistinctNamesAndTheSizesThatMatter) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    std::set<std::string> names;
    std::set<std::size_t> n, d, k;
    for (const auto& problem : qualification_problems<float>(family)) {
      EXPECT_TRUE(names.insert(problem.name).second) << problem.name;
      n.insert(problem.n);
      d.insert(problem.d);
      k.insert(problem.k);
    }
    for (const std::size_t size : {1U, 31U, 33U, 257U, 1025U}) {
      EXPECT_EQ(n.count(size), 1U) << size;
    }
    for (const std::size_t size : {1U, 2U, 3U, 9U, 37U, 100U, 129U}) {
      EXPECT_EQ(d.count(size), 1U) << size;
    }
    for (const std::size_t size : {1U, 2U, 5U, 16U, 31U, 257U}) {
      EXPECT_EQ(k.count(size), 1U) << size;
    }
  }
}

template <typename T>
class SecondStart : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(SecondStart, Precisions);

TYPED_TEST(SecondStart, isAnotherOneOfTheSameForm) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    for (const auto& problem : qualification_problems<TypeParam>(family)) {
      const auto& first = problem.centroids.empty() ? problem.memberships : problem.centroids;
      EXPECT_EQ(problem.second.size(), first.size()) << problem.name;
      EXPECT_NE(problem.second, first) << problem.name;
    }
  }
}

TYPED_TEST(SecondStart, isSolvedAsWellAsTheFirst) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    for (const auto& owned : qualification_problems<TypeParam>(family)) {
      const Problem<TypeParam> problem = owned.second_view();
      const Verdict verdict =
          verify_answer(meta, problem, solve(meta, problem).view(), run_oracle(family, problem));
      EXPECT_TRUE(verdict.right()) << owned.name << "\n" << verdict.message();
    }
  }
}

/// Some pairs of starts end in the same place, and then the same answer is right for both.
TYPED_TEST(SecondStart, showsAReplayOfTheFirstAnswer) {
  for (const Family family : {Family::kmeans, Family::fcm}) {
    const Meta meta = meta_of(family);
    std::size_t judged = 0;
    std::vector<std::string> missed;
    for (const auto& owned : qualification_problems<TypeParam>(family)) {
      const auto variant = make<TypeParam>(family, planted::Bug::replays_first_answer);
      prepare(*variant, owned.view());
      run_once(*variant, family, owned.view());
      const Problem<TypeParam> problem = owned.second_view();
      const auto answer = run_once(*variant, family, problem);
      EXPECT_TRUE(answer.recorded.empty());
      const OracleRun oracle = run_oracle(family, problem);
      if (verify_answer(meta, problem, answer.view(), oracle).right()) {
        missed.push_back(owned.name);
      }
      ++judged;
    }
    EXPECT_LT(4 * missed.size(), judged) << testing::PrintToString(missed);
  }
}

} // namespace
} // namespace clusterbench

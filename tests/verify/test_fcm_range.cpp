// Fuzzy c-means from one feature to 2048, 2 centres to 256 and fuzzifiers from 1.1 to 3: no variant
// on a CPU refuses any of it, in either precision, and every answer is right. The qualification
// stays with 16 centres and fuzzifiers from 1.5 on.
#include "harness/judge/collapse.hpp"
#include "harness/judge/oracle.hpp"
#include "tests/built_variants.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

namespace clusterbench {
namespace {

std::unique_ptr<Variant<float>> made(const RegisteredVariant& variant, float /*precision*/) {
  return variant.factories.f32();
}
std::unique_ptr<Variant<double>> made(const RegisteredVariant& variant, double /*precision*/) {
  return variant.factories.f64();
}

template <typename T>
class FcmRange : public testing::Test {
protected:
  /// All variants solve the problem; returns how many centres of the answer are apart.
  std::size_t expect_right(std::size_t n, std::size_t d, std::size_t k, double fuzzifier,
                           std::size_t passes = 2) {
    OwnedProblem<T> owned = clouds<T>(n, d, k, passes);
    owned.fuzzifier = fuzzifier;
    const Problem<T> problem = owned.view();
    const OracleRun oracle = run_oracle(Family::fcm, problem);
    std::size_t apart = 0, variants = 0;
    for (const RegisteredVariant& registered : built_variants(Device::cpu)) {
      if (registered.meta.family != Family::fcm || registered.meta.streams) {
        continue;
      }
      SCOPED_TRACE(testing::Message()
                   << registered.meta.name << ", d " << d << ", c " << k << ", m " << fuzzifier);
      const auto variant = made(registered, T{});
      EXPECT_EQ(variant->refuse(problem.shape()), "");
      prepare(*variant, problem);
      const OwnedAnswer<T> answer = run_once(*variant, Family::fcm, problem);
      const Verdict verdict = verify_answer(registered.meta, problem, answer.view(), oracle);
      EXPECT_TRUE(verdict.right()) << verdict.message();
      apart = centres_apart<T>(problem, answer.centroids);
      ++variants;
    }
    EXPECT_GE(variants, 3u);
    return apart;
  }
};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(FcmRange, Precisions);

TYPED_TEST(FcmRange, OneFeature) {
  for (const double m : {1.1, 3.0}) {
    this->expect_right(70, 1, 2, m);
    this->expect_right(257, 1, 256, m, 1);
  }
}

TYPED_TEST(FcmRange, ManyFeatures) {
  for (const double m : {1.1, 3.0}) {
    this->expect_right(40, 2048, 2, m, 1);
    this->expect_right(40, 2048, 17, m, 1);
  }
}

TYPED_TEST(FcmRange, BetweenThem) {
  this->expect_right(130, 5, 16, 1.1);
  this->expect_right(130, 67, 33, 1.5, 1);
  this->expect_right(260, 33, 256, 2.5, 1);
}

TYPED_TEST(FcmRange, CentresCollapseWithALargeFuzzifierAndManyFeatures) {
  EXPECT_EQ(this->expect_right(40, 64, 4, 3.0, 60), 1u);
  EXPECT_EQ(this->expect_right(40, 64, 4, 1.1, 60), 4u);
}

} // namespace
} // namespace clusterbench

// The verifier accepts what is right: correct variants in both precisions and both distance forms,
// on every qualification problem and on every one-step state.
#include "harness/qualification.hpp"
#include "harness/verifier.hpp"
#include "tests/verify/planted_bugs.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <set>

namespace clusterbench {
namespace {

using planted::Bug;

template <typename T>
std::unique_ptr<Variant<T>> make(Family family, Bug bug, DistanceForm form) {
  if (family == Family::kmeans) {
    return std::make_unique<planted::PlantedKMeans<T>>(bug, form);
  }
  return std::make_unique<planted::PlantedFcm<T>>(bug, form);
}

Meta meta_of(Family family, DistanceForm form = DistanceForm::difference) {
  Meta meta;
  meta.name = "planted";
  meta.family = family;
  meta.distance = form;
  return meta;
}

template <typename T>
OwnedAnswer<T> solve(const Meta& meta, const Problem<T>& problem) {
  const auto variant = make<T>(meta.family, Bug::none, meta.distance);
  variant->prepare(problem);
  return run_once(*variant, meta.family, problem);
}

template <typename T>
class Verifier : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(Verifier, Precisions);

template <typename T>
void expect_control_passes(Family family, DistanceForm form) {
  const Meta meta = meta_of(family, form);
  for (const auto& owned : qualification_problems<T>(family)) {
    const Problem<T> problem = owned.view();
    const OracleRun oracle = run_oracle(family, problem);
    const auto answer = solve(meta, problem);
    const Verdict verdict = verify_answer(meta, problem, answer.view(), oracle);
    EXPECT_TRUE(verdict.right()) << owned.name << "\n" << verdict.message();
    EXPECT_FALSE(verdict.sampled);
    for (const auto& state : one_step_states(family, problem, oracle)) {
      const Problem<T> one_pass = one_pass_problem(problem, state);
      const auto step = solve(meta, one_pass);
      const Verdict one = verify_one_step(meta, one_pass, step.view());
      EXPECT_TRUE(one.right()) << owned.name << ", " << state.name << "\n" << one.message();
    }
  }
}

TYPED_TEST(Verifier, acceptsKMeans) {
  expect_control_passes<TypeParam>(Family::kmeans, DistanceForm::difference);
}
TYPED_TEST(Verifier, acceptsKMeansInExpandedForm) {
  expect_control_passes<TypeParam>(Family::kmeans, DistanceForm::expanded);
}
TYPED_TEST(Verifier, acceptsFcm) {
  expect_control_passes<TypeParam>(Family::fcm, DistanceForm::difference);
}
TYPED_TEST(Verifier, acceptsFcmInExpandedForm) {
  expect_control_passes<TypeParam>(Family::fcm, DistanceForm::expanded);
}

} // namespace
} // namespace clusterbench

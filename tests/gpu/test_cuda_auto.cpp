// kmeans_cuda_auto where its table's bounds are not enough: rows far from the origin go to variants whose decisions
// do not suffer from it, and answers are right on both sides of that border. Picks are those of compute capability 9.0.
//
// Skipped where there is no GPU. tests/cli/test_auto.py compares the table with measurements.
#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/problem/registry.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>
#include <string>

namespace clusterbench {
namespace {

/// What auto picks for a problem, whose answer has to be right.
std::string pick_of(const RegisteredVariant& registered, const Problem<float>& problem) {
  const auto variant = make_variant<float>(registered);
  variant->prepare(problem);
  const auto answer = run_once(*variant, registered.meta.family, problem);
  const Verdict verdict = verify_answer(registered.meta, problem, answer.view(),
                                        run_oracle(registered.meta.family, problem));
  EXPECT_TRUE(verdict.right()) << verdict.message();
  const std::string path = variant->chosen_path();
  return path.substr(0, path.find(':'));
}

TEST(CudaAuto, FarRowsGoToOtherVariants) {
  const RegisteredVariant* registered = find_variant("kmeans_cuda_auto");
  if (registered == nullptr) {
    GTEST_SKIP() << "not built";
  }
  if (const std::string reason = unavailable_reason(*registered); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const RegisteredVariant* half_rows = find_variant("kmeans_cuda_half_rows");
  if (half_rows == nullptr ||
      !make_variant<float>(*half_rows)->refuse(clouds<float>(1000, 20, 48, 5).view()).empty()) {
    GTEST_SKIP() << "a device with other picks";
  }
  for (const std::size_t d : {8, 20, 37}) {
    SCOPED_TRACE(d);
    EXPECT_EQ(pick_of(*registered, clouds<float>(220001, d, 48, 5).view()),
              "kmeans_cuda_half_rows");
    EXPECT_EQ(pick_of(*registered, clouds<float>(220001, d, 48, 5, 300.0).view()),
              d == 8 ? "kmeans_cuda_cells" : "kmeans_cuda_wgmma");
  }
}

} // namespace
} // namespace clusterbench

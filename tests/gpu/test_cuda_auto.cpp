// kmeans_cuda_auto where its table's bounds are not enough: rows far from the origin go to variants
// whose decisions do not suffer from it, and answers are right on both sides of that border. Picks
// are those of compute capability 9.0.
//
// Skipped where there is no GPU. tests/cli/test_auto.py compares the table with measurements.
#include "harness/judge/verifier.hpp"
#include "tests/gpu/run_on_gpu.hpp"

#include <array>
#include <gtest/gtest.h>
#include <string>

namespace clusterbench {
namespace {

/// What auto picks for a problem, whose answer has to be right.
std::string pick_of(const RegisteredVariant& registered, const Problem<float>& problem) {
  OnGpu<float> object(registered, problem);
  const auto answer = object.run_recorded();
  const Verdict verdict = verify_answer(registered.meta, problem, answer.view(),
                                        run_oracle(registered.meta.family, problem));
  EXPECT_TRUE(verdict.right()) << verdict.message();
  const std::string path = object.chosen_path();
  return path.substr(0, path.find(':'));
}

TEST(CudaAuto, FarRowsGoToOtherVariants) {
  if (const std::string reason = why_skipped("kmeans_cuda_auto"); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  const Shape shape{.n = 1000, .d = 20, .k = 48, .stop = {}};
  if (!why_skipped("kmeans_cuda_half_rows").empty() ||
      !refusal_of_shape<float>(built_variant("kmeans_cuda_half_rows"), shape).empty()) {
    GTEST_SKIP() << "a device with other picks";
  }
  const RegisteredVariant& registered = built_variant("kmeans_cuda_auto");
  for (const std::size_t d : {8, 20, 37}) {
    SCOPED_TRACE(d);
    EXPECT_EQ(pick_of(registered, clouds<float>(220001, d, 48, 5).view()), "kmeans_cuda_half_rows");
    EXPECT_EQ(pick_of(registered, clouds<float>(220001, d, 48, 5, 300.0).view()),
              d == 8 ? "kmeans_cuda_cells" : "kmeans_cuda_wgmma");
  }
  for (const auto& [n, d, k] : {std::array<std::size_t, 3>{7001, 70, 48}, {2001, 128, 200}}) {
    EXPECT_EQ(pick_of(registered, clouds<float>(n, d, k, 5).view()), "kmeans_cuda_resident");
    EXPECT_EQ(pick_of(registered, clouds<float>(n, d, k, 5, 300.0).view()), "kmeans_cuda_wgmma");
  }
}

} // namespace
} // namespace clusterbench

// What variants for several GPUs say of a shape, before there is any GPU.
#include "tests/built_variants.hpp"
#include "tests/unit/run_variant.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>

namespace clusterbench {
namespace {

class SeveralGpus : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    if (find_variant(GetParam()) == nullptr) {
      GTEST_SKIP() << GetParam() << " was not built";
    }
  }
  const RegisteredVariant& variant() const { return built_variant(GetParam()); }
  bool is_fuzzy() const { return variant().meta.family == Family::fcm; }
  /// For shapes that differ from a common one.
  template <typename Change>
  std::string refusal(Change change) const {
    Shape shape{.n = 1000, .d = 4, .k = 3, .stop = {}, .world = 2};
    change(shape);
    return variant_tests::make<float>(variant())->refuse(shape);
  }
};

TEST_P(SeveralGpus, AreDeclaredAsTheyAre) {
  const Meta& meta = variant().meta;
  EXPECT_EQ(meta.device, Device::multi_gpu);
  EXPECT_EQ(is_fuzzy(), meta.name.starts_with("fcm_"));
  EXPECT_TRUE(meta.deterministic);
  EXPECT_TRUE(variant().factories.f32);
  EXPECT_FALSE(variant().factories.f64);
}

TEST_P(SeveralGpus, TakeSixteenAtMost) {
  EXPECT_EQ(refusal([](Shape& shape) { shape.world = 17; }), "17 devices, at most 16");
  EXPECT_EQ(refusal([](Shape& shape) { shape.world = 16; }).find("devices, at most"),
            std::string::npos);
}

TEST_P(SeveralGpus, CountPointsIn32BitsWhereTheyDo) {
  const auto many = [](std::size_t n) { return [n](Shape& shape) { shape.n = n; }; };
  const std::size_t first = std::size_t{1} << 31; // in two shards, each of which would be taken
  EXPECT_EQ(refusal(many(first)) == "points are counted in 32 bits", !is_fuzzy());
  EXPECT_NE(refusal(many(first - 1)), "points are counted in 32 bits");
}

TEST_P(SeveralGpus, WantAFuzzifierAboveOne) {
  if (!is_fuzzy()) {
    GTEST_SKIP() << "fuzzy c-means only";
  }
  for (const double fuzzifier : {1.0, 0.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(refusal([=](Shape& shape) { shape.fuzzifier = fuzzifier; }),
              "the fuzzifier must be greater than 1");
  }
}

INSTANTIATE_TEST_SUITE_P(All, SeveralGpus,
                         testing::Values("kmeans_nvlink", "kmeans_nvlink_out_of_core",
                                         "kmeans_nvlink_persistent", "kmeans_nccl", "fcm_nccl"),
                         [](const auto& name) { return std::string(name.param); });

} // namespace
} // namespace clusterbench

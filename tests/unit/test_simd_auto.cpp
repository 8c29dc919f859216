// kmeans_simd_auto names variants that exist, and comes to one that takes everything.
#include "impls/contract.hpp"
#include "tests/built_variants.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

using Names = std::vector<std::string>;

template <typename V>
Names delegates(const V& variant, std::size_t d, std::size_t k) {
  return variant->delegates({.n = 1000, .d = d, .k = k, .stop = {}});
}

void expect_to_end_with_one_that_takes_everything(const Names& names) {
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "kmeans_simd");
  const Meta& automatic = built_variant("kmeans_simd_auto").meta;
  for (const std::string& name : names) {
    const Meta& chosen = built_variant(name).meta; // or it throws
    EXPECT_EQ(chosen.distance, automatic.distance);
    EXPECT_EQ(chosen.labels, automatic.labels);
    EXPECT_TRUE(chosen.deterministic);
  }
}

TEST(SimdAuto, AlwaysComesToAVariantThatTakesEverything) {
  const Factories& automatic = built_variant("kmeans_simd_auto").factories;
  for (const std::size_t d : {1, 2, 3, 4, 5, 15, 16, 63, 64, 2048}) {
    for (const std::size_t k : {1, 3, 4, 5, 12, 40, 41, 255, 256, 65536}) {
      expect_to_end_with_one_that_takes_everything(delegates(automatic.f32(), d, k));
      const Names doubles = delegates(automatic.f64(), d, k);
      expect_to_end_with_one_that_takes_everything(doubles);
      for (const std::string& name : doubles) {
        EXPECT_TRUE(built_variant(name).factories.f64) << name;
      }
    }
  }
}

TEST(SimdAuto, NarrowScoresAreForManyFeatures) {
  const auto automatic = built_variant("kmeans_simd_auto").factories.f32();
  EXPECT_EQ(delegates(automatic, 2, 4096).front(), "kmeans_simd");
  EXPECT_EQ(delegates(automatic, 15, 4).front(), "kmeans_simd");
  EXPECT_EQ(delegates(automatic, 15, 5).front(), "kmeans_simd_int16");
  EXPECT_EQ(delegates(automatic, 64, 256),
            (Names{"kmeans_simd_amx", "kmeans_simd_int16", "kmeans_simd"}));
}

TEST(SimdAuto, InFloat64TheyAreForFewerFeaturesAndMoreThanThreeClusters) {
  const auto automatic = built_variant("kmeans_simd_auto").factories.f64();
  EXPECT_EQ(delegates(automatic, 2, 4096).front(), "kmeans_simd");
  EXPECT_EQ(delegates(automatic, 2048, 3).front(), "kmeans_simd");
  EXPECT_EQ(delegates(automatic, 3, 13), (Names{"kmeans_simd_int16", "kmeans_simd"}));
  EXPECT_EQ(delegates(automatic, 128, 1024), (Names{"kmeans_simd_int16", "kmeans_simd"}));
}

} // namespace
} // namespace clusterbench

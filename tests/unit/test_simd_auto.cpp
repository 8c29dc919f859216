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

TEST(SimdAuto, AlwaysComesToAVariantThatTakesEverything) {
  const RegisteredVariant& automatic = built_variant("kmeans_simd_auto");
  for (const std::size_t d : {1, 3, 4, 5, 15, 16, 63, 64, 2048}) {
    for (const std::size_t k : {1, 4, 5, 40, 41, 255, 256, 65536}) {
      const Names names = delegates(automatic.factories.f32(), d, k);
      ASSERT_FALSE(names.empty());
      EXPECT_EQ(names.back(), "kmeans_simd");
      for (const std::string& name : names) {
        const RegisteredVariant& chosen = built_variant(name); // or it throws
        EXPECT_EQ(chosen.meta.distance, automatic.meta.distance);
        EXPECT_EQ(chosen.meta.labels, automatic.meta.labels);
        EXPECT_TRUE(chosen.meta.deterministic);
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

TEST(SimdAuto, OneVariantHasFloat64) {
  const auto automatic = built_variant("kmeans_simd_auto").factories.f64();
  EXPECT_EQ(delegates(automatic, 128, 1024), Names{"kmeans_simd"});
}

} // namespace
} // namespace clusterbench

// Article 000's printed figures hang on this: every operation rounds, in the order of its program.
#include "tests/unit/variant_cases.hpp"

namespace clusterbench::variant_tests {
namespace {

// A fused multiply-add (a build without -ffp-contract=off) or a reordered sum gives other last
// digits; `volatile` keeps the reference here from the same temptation.
Case<float> strict_case(std::size_t n, std::size_t d, std::uint64_t seed, float& loss) {
  std::mt19937_64 random(seed);
  Case<float> test{.n = n, .d = d, .k = 1};
  test.points.resize(n * d);
  test.centroids.resize(d);
  std::ranges::generate(test.points, [&] { return random_value<float>(random); });
  std::ranges::generate(test.centroids, [&] { return random_value<float>(random); });
  test.stop = {.kind = StopRule::Kind::iterations, .max_iterations = 1};
  volatile float total = 0.0f;
  for (std::size_t i = 0; i < n; ++i) {
    volatile float sum = 0.0f;
    for (std::size_t f = 0; f < d; ++f) {
      const volatile float difference = test.points[i * d + f] - test.centroids[f];
      const volatile float square = difference * difference;
      sum = sum + square;
    }
    total = total + std::sqrt(sum);
  }
  loss = total;
  return test;
}

TEST(ArticleOrder, SerialDistancesRoundsEveryOperation) {
  const auto variants = cpu_variants(Family::kmeans);
  const auto registered = std::ranges::find_if(
      variants, [](const auto& variant) { return variant.meta.name == "kmeans_serial_distances"; });
  ASSERT_NE(registered, variants.end());
  const auto variant = make<float>(*registered);
  for (const std::size_t d : {2, 3, 9, 15, 100}) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      float loss = 0.0f;
      const Case<float> test = strict_case(1 + seed % 2 * 30, d, seed, loss);
      const OwnedAnswer<float> answer = answer_of(*registered, *variant, test);
      EXPECT_EQ(answer.recorder.printed_losses, Doubles{double{loss}});
      std::vector<float> means(d);
      for (std::size_t c = 0; c < test.points.size(); ++c) {
        means[c % d] += test.points[c];
      }
      std::ranges::for_each(means, [&](float& mean) { mean /= static_cast<float>(test.n); });
      EXPECT_EQ(answer.centroids, means);
    }
  }
}

} // namespace
} // namespace clusterbench::variant_tests

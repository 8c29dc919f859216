// Every registered CPU variant of k-means on small awkward problems, one pass at a time: from the
// centroids that the variant itself produced, a reference in double says what the next pass must
// produce, so the rounding of one pass cannot grow into another clustering. Ties and empty clusters
// are exact.
#include "tests/unit/variant_cases.hpp"
#include "tests/unit/variant_reference.hpp"

#include <set>
#include <string>

namespace clusterbench::variant_tests {
namespace {

template <typename T>
void check_kmeans(const RegisteredVariant& registered, const Case<T>& test, Tally& tally) {
  SCOPED_TRACE(registered.meta.name + ": n " + std::to_string(test.n) + ", d " +
               std::to_string(test.d) + ", k " + std::to_string(test.k) + ", stop " +
               std::to_string(static_cast<int>(test.stop.kind)) + ", threads " +
               std::to_string(test.threads));
  const auto variant = make<T>(registered);
  const Meta& meta = registered.meta;
  if (!variant || !variant->refuse(test.shape()).empty()) {
    return;
  }
  ASSERT_TRUE(test.d >= meta.min_d && test.d <= meta.max_d && test.k <= meta.max_k);
  ++tally.variants;
  const OwnedAnswer<T> answer = answer_of(registered, *variant, test);

  double size = 0.0;
  for (const T value : test.points) {
    size = std::max(size, std::abs(double{value}));
  }
  const double tolerance = 2.0 * double(test.n) * std::numeric_limits<T>::epsilon() * size;
  std::vector<T> entering = test.centroids;
  std::vector<std::int32_t> labels(test.n, -1);
  std::vector<PassFacts> facts;
  bool sure = true;
  for (const std::vector<T>& produced : answer.recorder.passes) {
    const Step step = kmeans_step(test, entering);
    const bool sure_before = std::exchange(sure, std::ranges::count(step.unsure, true) == 0);
    ++tally.passes;
    PassFacts pass{.loss = step.loss, .labels_changed = labels != step.labels};
    for (std::size_t c = 0; c < produced.size(); ++c) {
      pass.squared_shift += std::pow(double{produced[c]} - double{entering[c]}, 2);
      if (sure) {
        EXPECT_NEAR(double{produced[c]}, step.centroids[c], tolerance);
      }
    }
    if (!sure) {
      ++tally.unsure;
    }
    if (test.stop.kind == StopRule::Kind::labels && !(sure && sure_before)) {
      return; // rounding may decide when this run ends
    }
    facts.push_back(pass);
    labels = step.labels;
    const bool last = facts.size() == answer.iterations;
    const Step closing =
        meta.labels == LabelsFrom::entering_centroids || !last ? step : kmeans_step(test, produced);
    for (std::size_t i = 0; i < test.n && last; ++i) {
      if (!closing.unsure[i]) {
        EXPECT_EQ(answer.labels[i], closing.labels[i]) << "point " << i;
      }
    }
    if (!answer.recorder.printed_losses.empty()) {
      EXPECT_NEAR(answer.recorder.printed_losses.at(facts.size() - 1), step.loss,
                  double(test.d + test.n) * tolerance);
    }
    entering = produced;
  }
  const double slack = 4.0 * double(test.d + test.n) * tolerance;
  expect_right_end(test.stop, facts, test.stop.kind == StopRule::Kind::loss ? slack : 1e-9);
}

template <typename T>
class CpuVariants : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(CpuVariants, Precisions);

TYPED_TEST(CpuVariants, KmeansPassByPass) {
  using T = TypeParam;
  Tally tally;
  for (const std::size_t k : {1, 2, 5, 16, 31}) {
    for (const std::size_t n :
         {std::size_t{1}, k, k + 1, std::size_t{31}, std::size_t{33}, std::size_t{257}}) {
      for (const std::size_t d : {1, 2, 3, 9, 100}) {
        if (n < k) {
          continue;
        }
        Case<T> test = blobs<T>(n, d, k, 1000 * n + 10 * d + k);
        for (const StopRule& rule : stop_rules(kmeans_step(test, test.centroids).loss)) {
          test.stop = rule;
          for (const int threads : {1, 2}) {
            test.threads = threads;
            for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
              check_kmeans(registered, test, tally);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(tally.variants, 1000u);
  EXPECT_LT(tally.unsure, tally.passes / 10); // most passes were judged
}

/// Weights about 1, and none for every fifth point.
template <typename T>
Case<T> with_weights(Case<T> test) {
  std::mt19937_64 random(test.n + test.d + test.k);
  std::uniform_real_distribution<double> weight(0.1, 2.0);
  for (std::size_t i = 0; i < test.n; ++i) {
    test.weights.push_back(i % 5 == 4 ? T{0} : static_cast<T>(weight(random)));
  }
  return test;
}

TYPED_TEST(CpuVariants, WeightedKmeansPassByPass) {
  using T = TypeParam;
  Tally tally;
  std::set<std::string> names;
  for (const std::size_t k : {1, 5, 16, 70}) { // every path of kmeans_simd
    for (const std::size_t n : {k, std::size_t{257}}) {
      for (const std::size_t d : {1, 3, 20, 100}) {
        if (n < k) {
          continue;
        }
        Case<T> test = with_weights(blobs<T>(n, d, k, 1000 * n + 10 * d + k));
        for (const StopRule& rule : stop_rules(kmeans_step(test, test.centroids).loss)) {
          test.stop = rule;
          for (const int threads : {1, 2}) {
            test.threads = threads;
            for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
              if (registered.meta.takes_weights) {
                names.insert(registered.meta.name);
                check_kmeans(registered, test, tally);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"kmeans_openmp", "kmeans_serial", "kmeans_simd"}));
  EXPECT_LT(tally.unsure, tally.passes / 10);
}

TYPED_TEST(CpuVariants, AClusterWithoutWeightKeepsItsCentroidAndItsLabels) {
  using T = TypeParam;
  for (const std::size_t d : {1, 3, 20}) {
    Case<T> test = blobs<T>(257, d, 5, d);
    for (std::size_t i = 0; i < test.n; ++i) { // the first fifty lie apart
      test.weights.push_back(i < 50 ? T{0} : T{1});
      test.points[i * d] += i < 50 ? T{1000} : T{0};
    }
    test.centroids[2 * d] = T{1000};
    test.stop = {.kind = StopRule::Kind::iterations, .max_iterations = 3};
    test.threads = 2;
    for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
      const auto variant = make<T>(registered);
      if (!variant || !registered.meta.takes_weights) {
        continue;
      }
      const OwnedAnswer<T> answer = answer_of(registered, *variant, test);
      for (std::size_t f = 0; f < d; ++f) {
        EXPECT_EQ(answer.centroids[2 * d + f], test.centroids[2 * d + f]) << registered.meta.name;
      }
      for (std::size_t i = 0; i < 50; ++i) {
        EXPECT_EQ(answer.labels[i], 2) << registered.meta.name;
      }
    }
  }
}

TYPED_TEST(CpuVariants, WeightsOfOneChangeNothing) {
  using T = TypeParam;
  Case<T> test = blobs<T>(257, 9, 5, 3);
  test.stop = {.kind = StopRule::Kind::iterations, .max_iterations = 4};
  for (const char* name : {"kmeans_serial", "kmeans_openmp"}) {
    // kmeans_simd adds up in another order
    for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
      if (registered.meta.name == name) {
        const auto variant = make<T>(registered);
        test.weights.clear();
        const OwnedAnswer<T> without = prepare_and_run(*variant, Family::kmeans, test);
        test.weights.assign(test.n, T{1});
        EXPECT_EQ(prepare_and_run(*variant, Family::kmeans, test), without) << name;
      }
    }
  }
}

TYPED_TEST(CpuVariants, AnEmptyClusterKeepsItsCentroid) {
  using T = TypeParam;
  Tally tally;
  for (const std::size_t d : {1, 2, 3, 9, 100}) {
    Case<T> test = blobs<T>(257, d, 5, d);
    std::ranges::fill_n(test.centroids.begin() + static_cast<std::ptrdiff_t>(2 * d), d, T{1000});
    test.stop = {.kind = StopRule::Kind::iterations, .max_iterations = 3};
    test.threads = 2;
    for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
      const auto variant = make<T>(registered);
      if (!variant || !variant->refuse(test.shape()).empty() || registered.meta.reseeds_empty) {
        continue;
      }
      check_kmeans(registered, test, tally);
      const OwnedAnswer<T> answer = answer_of(registered, *variant, test);
      for (std::size_t f = 0; f < d; ++f) {
        EXPECT_EQ(answer.centroids[2 * d + f], T{1000}) << registered.meta.name;
      }
      EXPECT_EQ(std::ranges::count(answer.labels, 2), 0) << registered.meta.name;
    }
  }
  EXPECT_GE(tally.variants, 5u);
}

// Sums that are kept from pass to pass in one unit for all must not lose what is small in one
// cluster.
TYPED_TEST(CpuVariants, AMeanOfTinyValuesBesideLargeOnesKeepsItsDigits) {
  using T = TypeParam;
  constexpr std::size_t kN = 400, kK = 9;
  std::size_t checked = 0;
  for (const std::size_t d : {2, 9, 37}) {
    std::mt19937_64 random(d);
    std::normal_distribution<double> normal;
    Case<T> test{.n = kN, .d = d, .k = kK};
    for (std::size_t i = 0; i < kN; ++i) {
      for (std::size_t f = 0; f < d; ++f) { // the first feature tells clusters apart
        const double size = i % kK == 0 ? 1e-14 : 1.0;
        test.points.push_back(
            static_cast<T>(f == 0 ? 50.0 * double(i % kK) : size * normal(random)));
      }
    }
    test.centroids.assign(test.points.begin(),
                          test.points.begin() + static_cast<std::ptrdiff_t>(kK * d));
    test.stop = {.kind = StopRule::Kind::iterations, .max_iterations = 3};
    test.threads = 2;
    for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
      const auto variant = make<T>(registered);
      if (!variant || !variant->refuse(test.shape()).empty()) {
        continue;
      }
      const OwnedAnswer<T> answer = answer_of(registered, *variant, test);
      for (std::size_t f = 1; f < d; ++f) {
        double sum = 0.0, magnitudes = 0.0, count = 0.0;
        for (std::size_t i = 0; i < kN; i += kK, ++count) {
          sum += double{test.points[i * d + f]};
          magnitudes += std::abs(double{test.points[i * d + f]});
        }
        EXPECT_NEAR(answer.centroids[f], sum / count, 1e-5 * magnitudes / count)
            << registered.meta.name << ", d " << d;
      }
      ++checked;
    }
  }
  EXPECT_GE(checked, 15u);
}

// Small integers are exact in every form of the distance, so ties are ties and not roundings.
TYPED_TEST(CpuVariants, TiesGoToTheLowestIndex) {
  using T = TypeParam;
  std::size_t ties = 0;
  for (const std::size_t k : {2, 5, 16, 31}) {
    for (const std::size_t d : {1, 2, 3, 9, 100}) {
      std::mt19937_64 random(k * 1000 + d);
      Case<T> test{.n = 257, .d = d, .k = k};
      const auto draw = [&] { return static_cast<T>(static_cast<int>(random() % 5) - 2); };
      test.points.resize(test.n * d);
      std::ranges::generate(test.points, draw);
      test.centroids.resize(k * d);
      std::ranges::generate(test.centroids, draw);
      // The last centroid repeats the first, so nothing may ever go to it.
      std::copy_n(test.centroids.begin(), d, test.centroids.end() - static_cast<std::ptrdiff_t>(d));
      test.stop = {.kind = StopRule::Kind::iterations, .max_iterations = 1};
      const Step step = kmeans_step(test, test.centroids);
      ties += static_cast<std::size_t>(std::ranges::count(step.unsure, true));
      for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
        const auto variant = make<T>(registered);
        if (variant && variant->refuse(test.shape()).empty()) {
          const OwnedAnswer<T> answer = answer_of(registered, *variant, test);
          EXPECT_EQ(answer.labels, step.labels) << registered.meta.name << ", d " << d;
        }
      }
    }
  }
  EXPECT_GT(ties, 257u);
}

TYPED_TEST(CpuVariants, WhatIsRefused) {
  using T = TypeParam;
  Case<T> test = blobs<T>(33, 3, 2, 1);
  for (const RegisteredVariant& registered : cpu_variants(Family::kmeans)) {
    const auto variant = make<T>(registered);
    const bool takes = test.d >= registered.meta.min_d && test.d <= registered.meta.max_d;
    const std::string why = variant ? variant->refuse(test.shape()) : "";
    if (why.find("this processor") != std::string::npos) { // another machine's
      continue;
    }
    EXPECT_TRUE(!variant || why.empty() == takes) << registered.meta.name;
  }
  test.fuzzifier = 1.0;
  for (const RegisteredVariant& registered : cpu_variants(Family::fcm)) {
    const auto variant = make<T>(registered);
    EXPECT_TRUE(!variant || !variant->refuse(test.shape()).empty()) << registered.meta.name;
  }
}

} // namespace
} // namespace clusterbench::variant_tests

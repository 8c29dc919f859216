// The sieve: labels from scores in the product form, on data made to mislead them. Whatever the
// data, a label may differ from the exact one only by the rounding of the difference form.
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/pair_sieve.hpp"
#include "impls/simd/support/short_sieve.hpp"

#include <gtest/gtest.h>
#include <random>

namespace clusterbench::simd {
namespace {

template <typename T>
struct Case {
  std::string what;
  std::size_t n, d, k;
  std::vector<T> points, centroids;
};

/// Points beside centroids. Each centroid is there twice; every other point is almost half-way
/// between two, `gap` of their distance beside the middle.
template <typename T>
Case<T> drawn(std::string what, std::size_t n, std::size_t d, std::size_t k, double offset,
              double scale, double gap) {
  Case<T> test{std::move(what), n, d, k, std::vector<T>(n * d), std::vector<T>(k * d)};
  std::mt19937_64 random(n * 1009 + d * 31 + k);
  std::normal_distribution<double> normal;
  for (std::size_t j = 0; j < k; ++j) {
    for (std::size_t f = 0; f < d; ++f) {
      test.centroids[j * d + f] = j >= (k + 1) / 2
                                      ? test.centroids[(j - (k + 1) / 2) * d + f]
                                      : static_cast<T>(scale * (offset + normal(random)));
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t a = random() % k, b = random() % k;
    const double share = i % 2 == 0 ? 0.5 + gap * normal(random) : 0.0;
    for (std::size_t f = 0; f < d; ++f) {
      const double from{test.centroids[a * d + f]}, to{test.centroids[b * d + f]};
      test.points[i * d + f] = static_cast<T>(from + share * (to - from) +
                                              (i % 4 == 1 ? 0.3 * scale * normal(random) : 0));
    }
  }
  return test;
}

template <typename T>
std::vector<Case<T>> cases() {
  constexpr bool kFloat = sizeof(T) == sizeof(float);
  constexpr double kGap = kFloat ? 1e-6 : 1e-15;
  std::vector<Case<T>> found;
  for (const std::size_t d : {1, 3, 17, 37, 128, 257}) {
    for (const std::size_t k : {1, 2, 7, 23, 65, 300}) {
      found.push_back(drawn<T>("near ties", 131, d, k, 0.0, 1.0, kGap));
      found.push_back(drawn<T>("ties", 67, d, k, 0.0, 1.0, 0.0));
      found.push_back(drawn<T>("far from the origin", 67, d, k, kFloat ? 1e4 : 1e9, 1.0, kGap));
      found.push_back(drawn<T>("squares overflow", 33, d, k, 0.0, kFloat ? 1e20 : 1e155, kGap));
      found.push_back(drawn<T>("sums overflow", 33, d, k, 0.0, kFloat ? 3e18 : 4e153, kGap));
      found.push_back(drawn<T>("squares underflow", 33, d, k, 0.0, kFloat ? 1e-21 : 1e-160, 1e-3));
      found.push_back(drawn<T>("denormal", 33, d, k, 0.0, kFloat ? 1e-42 : 1e-310, 1e-3));
    }
  }
  // One point far away takes the mean with it: all others then round as if they were far away.
  Case<T> outlier = drawn<T>("an outlier", 131, 37, 65, 0.0, 1.0, kGap);
  std::fill_n(outlier.points.begin(), 37, kFloat ? T(1e6) : T(1e14));
  found.push_back(outlier);
  Case<T> infinite = drawn<T>("one value is infinite", 67, 37, 23, 0.0, 1.0, kGap);
  infinite.points[40] = std::numeric_limits<T>::infinity();
  found.push_back(infinite);
  return found;
}

template <typename T>
long double squared_distance(const Case<T>& test, std::size_t i, std::size_t j) {
  long double sum = 0.0L;
  for (std::size_t f = 0; f < test.d; ++f) {
    const long double away = static_cast<long double>(test.points[i * test.d + f]) -
                             static_cast<long double>(test.centroids[j * test.d + f]);
    sum += away * away;
  }
  return sum;
}

template <typename T>
struct SieveAnswer {
  std::vector<std::int32_t> labels, labels_alone;
  std::vector<T> distances;
};

/// A sieve that has all points, of so many parts.
template <typename T>
SieveMaker<T> sieve_of(const Kernels<T>& kernels, const Case<T>& test, std::size_t parts) {
  SieveMaker<T> maker(test.points, test.n, test.d, test.k, kernels, parts);
  for (std::size_t i = 0, part = 0; i < test.n; i += kRoundUp, part = (part + 1) % parts) {
    maker.take(part, i, std::min(kRoundUp, test.n - i));
  }
  return maker;
}

/// What one instruction set answers, the centroids packed in three parts, one after the other. The
/// bound may be left out, to see what it is good for.
template <typename T>
SieveAnswer<T> answer_of(const Kernels<T>& kernels, const Case<T>& test, bool with_bound = true) {
  SieveMaker<T> maker = sieve_of(kernels, test, 3);
  for (const std::size_t part : {2, 0, 1}) {
    maker.pack(test.centroids, part);
  }
  Sieve<T> sieve = maker.sieve();
  if (!with_bound) {
    sieve.per_norm = sieve.always = -std::numeric_limits<T>::denorm_min();
  }
  const std::size_t room = rounded_up(test.n);
  SieveAnswer<T> answer{std::vector<std::int32_t>(room), std::vector<std::int32_t>(room),
                        std::vector<T>(room)};
  std::vector<T> minima(sieve.groups * kRoundUp);
  const Chunk<T> chunk{test.points.data(), maker.columns(0), test.n, test.d};
  kernels.sieve_columns(chunk, maker.norms(0), sieve, test.centroids.data(), test.k, minima.data(),
                        answer.labels.data(), answer.distances.data());
  kernels.sieve_columns(chunk, maker.norms(0), sieve, test.centroids.data(), test.k, minima.data(),
                        answer.labels_alone.data(), nullptr);
  return answer;
}

/// Points whose label is not of the nearest centroid, even granted the rounding of differences.
template <typename T>
std::size_t wrong_labels(const Case<T>& test, const SieveAnswer<T>& answer) {
  constexpr long double kEpsilon = std::numeric_limits<T>::epsilon();
  constexpr long double kTiny = std::numeric_limits<T>::denorm_min();
  const auto d = static_cast<long double>(test.d);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < test.n; ++i) {
    const auto label = static_cast<std::size_t>(answer.labels[i]);
    EXPECT_LT(label, test.k);
    EXPECT_EQ(answer.labels_alone[i], answer.labels[i]);
    long double smallest = std::numeric_limits<long double>::infinity();
    for (std::size_t j = 0; j < test.k; ++j) {
      smallest = std::min(smallest, squared_distance(test, i, j));
    }
    const long double own = squared_distance(test, i, label);
    const long double rounding = (d + 4) * kEpsilon * smallest + 2 * d * kTiny;
    const bool overflows = !(own * 2 < static_cast<long double>(std::numeric_limits<T>::max()));
    wrong += own <= smallest + rounding || overflows ? 0 : 1;
    // The same centroid may be there twice; the second one never wins.
    wrong += label >= (test.k + 1) / 2 ? 1 : 0;
    if (!overflows) {
      EXPECT_NEAR(static_cast<double>(answer.distances[i]), static_cast<double>(own),
                  static_cast<double>((d + 4) * kEpsilon * own + 2 * d * kTiny));
    }
  }
  return wrong;
}

template <typename T>
class SimdSieve : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdSieve, Precisions);

TYPED_TEST(SimdSieve, LabelsAreOfTheNearest) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    for (const Case<T>& test : cases<T>()) {
      SCOPED_TRACE(std::string(kernels->isa) + ", " + test.what + ", d " + std::to_string(test.d) +
                   ", k " + std::to_string(test.k));
      EXPECT_EQ(wrong_labels(test, answer_of(*kernels, test)), 0u);
    }
  }
}

// Without the bound the scores alone decide, and the data above do mislead them.
TYPED_TEST(SimdSieve, WithoutTheBoundLabelsAreWrong) {
  using T = TypeParam;
  for (const Kernels<T>* kernels : executable_kernels<T>()) {
    std::size_t wrong = 0;
    for (const Case<T>& test : cases<T>()) {
      if (test.what == "an outlier" || test.what == "far from the origin") {
        wrong += wrong_labels(test, answer_of(*kernels, test, false));
      }
    }
    EXPECT_GT(wrong, 0u) << kernels->isa;
  }
}

// The bound is narrow: where clusters stand apart, hardly a group is compared.
TYPED_TEST(SimdSieve, RulesOutWhatIsFar) {
  using T = TypeParam;
  const Case<T> test =
      drawn<T>("apart", 64, 128, 64, sizeof(T) == sizeof(float) ? 1e3 : 1e9, 1.0, 0.2);
  SieveMaker<T> maker = sieve_of(*portable_kernels<T>(), test, 1);
  maker.pack(test.centroids, 0);
  const Sieve<T> sieve = maker.sieve();
  const double bound = double{sieve.per_norm} * double{*maker.norms(0)} + double{sieve.always};
  EXPECT_GT(bound, 0.0);
  EXPECT_LT(bound, 1e-2); // two centroids are about 2 * 128 apart, squared
}

TEST(SimdPairSieve, RoundsToTheNearest) {
  EXPECT_EQ(rounded_to_bf16(1.0f + 0x1p-8f), 1.0f);             // half-way: to even
  EXPECT_EQ(rounded_to_bf16(1.0f + 0x1.8p-7f), 1.0f + 0x1p-6f); // half-way: to even
  EXPECT_EQ(rounded_to_bf16(-1.0f - 0x1.2p-8f), -1.0f - 0x1p-7f);
  EXPECT_EQ(rounded_to_bf16(0x1p-127f), 0.0f); // denormal
  EXPECT_EQ(rounded_to_bf16(std::numeric_limits<float>::max()),
            std::numeric_limits<float>::infinity());
}

class SimdPairKernels : public testing::TestWithParam<int> {
protected:
  void SetUp() override {
    kernel_ = GetParam() == 0 ? bf16_kernel() : tile_kernel();
    if (!kernel_.unavailable.empty()) {
      GTEST_SKIP() << kernel_.unavailable;
    }
  }

  SieveAnswer<float> answer_of(const Case<float>& test, bool with_bound = true) const {
    Team team(3);
    PairSieveMaker maker(test.points, test.n, test.d, test.k, kernel_, team);
    for (const std::size_t part : {2, 0, 1}) {
      maker.pack(test.centroids, part);
    }
    PairSieve sieve = maker.sieve();
    if (!with_bound) {
      sieve.per_norm = sieve.per_residual = 0.0f;
      sieve.always = -std::numeric_limits<float>::denorm_min();
    }
    const std::size_t room = rounded_up(test.n);
    SieveAnswer<float> answer{std::vector<std::int32_t>(room), std::vector<std::int32_t>(room),
                              std::vector<float>(room)};
    std::vector<float> minima(sieve.groups * 2 * kTile);
    const Chunk<float> chunk{test.points.data(), nullptr, test.n, test.d};
    kernel_.kernel(chunk, maker.columns(0), sieve, test.centroids.data(), test.k, minima.data(),
                   answer.labels.data(), answer.distances.data());
    kernel_.kernel(chunk, maker.columns(0), sieve, test.centroids.data(), test.k, minima.data(),
                   answer.labels_alone.data(), nullptr);
    return answer;
  }

  PairKernel kernel_;
};

TEST_P(SimdPairKernels, LabelsAreOfTheNearest) {
  for (const Case<float>& test : cases<float>()) {
    SCOPED_TRACE(test.what + ", d " + std::to_string(test.d) + ", k " + std::to_string(test.k));
    EXPECT_EQ(wrong_labels(test, answer_of(test)), 0u);
  }
}

TEST_P(SimdPairKernels, WithoutTheBoundLabelsAreWrong) {
  std::size_t wrong = 0;
  for (const Case<float>& test : cases<float>()) {
    if (test.what == "near ties" || test.what == "far from the origin") {
      wrong += wrong_labels(test, answer_of(test, false));
    }
  }
  EXPECT_GT(wrong, 0u);
}

template <typename T>
class SimdShortKernel : public testing::Test {
protected:
  void SetUp() override {
    kernel_ = short_kernel<T>();
    if (!kernel_.unavailable.empty()) {
      GTEST_SKIP() << kernel_.unavailable;
    }
  }

  SieveAnswer<T> answer_of(const Case<T>& test, bool with_bound = true) const {
    Team team(3);
    ShortSieveMaker<T> maker(test.points, test.n, test.d, test.k, kernel_, team);
    for (const std::size_t part : {2, 0, 1}) {
      maker.pack(test.centroids, part);
    }
    ShortSieve sieve = maker.sieve();
    sieve.margin = with_bound ? sieve.margin : 0;
    const std::size_t room = rounded_up(test.n);
    SieveAnswer<T> answer{std::vector<std::int32_t>(room), std::vector<std::int32_t>(room),
                          std::vector<T>(room)};
    std::vector<std::int32_t> minima(sieve.groups * 2 * kTile);
    const Chunk<T> chunk{test.points.data(), nullptr, test.n, test.d};
    kernel_.kernel(chunk, maker.columns(0), sieve, test.centroids.data(), test.k, minima.data(),
                   answer.labels.data(), answer.distances.data());
    kernel_.kernel(chunk, maker.columns(0), sieve, test.centroids.data(), test.k, minima.data(),
                   answer.labels_alone.data(), nullptr);
    return answer;
  }

  ShortKernel<T> kernel_;
};

using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(SimdShortKernel, Precisions);

TYPED_TEST(SimdShortKernel, LabelsAreOfTheNearest) {
  for (const Case<TypeParam>& test : cases<TypeParam>()) {
    SCOPED_TRACE(test.what + ", d " + std::to_string(test.d) + ", k " + std::to_string(test.k));
    EXPECT_EQ(wrong_labels(test, this->answer_of(test)), 0u);
  }
}

TYPED_TEST(SimdShortKernel, WithoutTheBoundLabelsAreWrong) {
  std::size_t wrong = 0;
  for (const Case<TypeParam>& test : cases<TypeParam>()) {
    if (test.what == "near ties" || test.what == "an outlier") {
      wrong += wrong_labels(test, this->answer_of(test, false));
    }
  }
  EXPECT_GT(wrong, 0u);
}

// The margin is a small part of what lies between centroids that stand apart.
TYPED_TEST(SimdShortKernel, RulesOutWhatIsFar) {
  const Case<TypeParam> test = drawn<TypeParam>("apart", 64, 128, 64, 1e3, 1.0, 0.2);
  Team team(1);
  ShortSieveMaker<TypeParam> maker(test.points, test.n, test.d, test.k, this->kernel_, team);
  maker.pack(test.centroids, 0);
  EXPECT_GT(maker.sieve().margin, 18);
  EXPECT_LT(maker.sieve().margin, 1 << 20); // of 2^30
}

INSTANTIATE_TEST_SUITE_P(Bf16, SimdPairKernels, testing::Values(0, 1));

} // namespace
} // namespace clusterbench::simd

// Small awkward problems for the tests of variants, and a variant's answers to them.
#pragma once

#include "tests/built_variants.hpp"
#include "tests/unit/run_variant.hpp"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>

namespace clusterbench::variant_tests {

using Doubles = std::vector<double>;

/// Whether a variant does no work itself; a Session drives what it chooses.
inline bool only_chooses(const RegisteredVariant& variant) {
  const Shape shape{.n = 1, .d = 1, .k = 1, .stop = {}};
  return variant.factories.f32 && !variant.factories.f32()->delegates(shape).empty();
}

/// Those of a family that compute.
inline std::vector<RegisteredVariant> cpu_variants(Family family) {
  static const std::vector<RegisteredVariant> all = built_variants(Device::cpu);
  std::vector<RegisteredVariant> found;
  std::ranges::copy_if(all, std::back_inserter(found), [&](const auto& variant) {
    return variant.meta.family == family && !only_chooses(variant);
  });
  return found;
}

/// The answer to a case of an object that has answered from another start before, with what holds
/// for every answer: all of it is written, and the centroids are those of the recorded passes.
template <typename T>
OwnedAnswer<T> answer_of(const RegisteredVariant& registered, Variant<T>& variant,
                         const Case<T>& test) {
  const Family family = registered.meta.family;
  Case<T> other = test;
  std::ranges::reverse(other.centroids);
  std::ranges::reverse(other.memberships);
  prepare_and_run(variant, family, other, false);
  OwnedAnswer<T> answer = run(variant, family, test);
  const auto& passes = answer.recorder.passes;
  EXPECT_EQ(passes.size(), answer.iterations);
  EXPECT_EQ(passes.back(), answer.centroids);
  if (passes.size() > 1) {
    EXPECT_EQ(answer.entering, passes[passes.size() - 2]);
  } else if (test.memberships.empty()) {
    EXPECT_EQ(answer.entering, test.centroids);
  }
  EXPECT_GE(answer.recorder.phases, answer.iterations);
  EXPECT_EQ(answer.recorder.open_phases, 0u);
  EXPECT_EQ(poisoned(answer.labels) + poisoned(answer.centroids) + poisoned(answer.memberships),
            0u);
  return answer;
}

template <typename T>
T random_value(std::mt19937_64& random) {
  return static_cast<T>(std::normal_distribution<double>(0.0, 1.0)(random));
}

/// Gaussian blobs around random centres; every third point repeats an earlier one.
template <typename T>
Case<T> blobs(std::size_t n, std::size_t d, std::size_t k, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Case<T> test{.n = n, .d = d, .k = k};
  std::vector<T> centres(k * d);
  std::ranges::generate(centres, [&] { return 4 * random_value<T>(random); });
  for (std::size_t i = 0; i < n; ++i) {
    const bool repeated = i >= k && i % 3 == 2;
    for (std::size_t f = 0; f < d; ++f) {
      test.points.push_back(repeated ? test.points[(i / 2) * d + f]
                                     : centres[i % k * d + f] + random_value<T>(random));
    }
  }
  test.centroids.assign(test.points.begin(),
                        test.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return test;
}

inline std::vector<StopRule> stop_rules(double loss) {
  using Kind = StopRule::Kind;
  return {{Kind::iterations, 0.0, 1}, {Kind::iterations, 0.0, 4}, {Kind::loss, 0.01 * loss, 12},
          {Kind::labels, 0.0, 12},    {Kind::shift, 1e-2, 12},    {Kind::shift, 0.0, 12}};
}

struct Tally {
  std::size_t variants = 0, passes = 0, unsure = 0;
};

/// Whether a run ended when its rule says so, given the facts of its passes. A rule that rounding
/// may decide either way (`slack`) is not judged.
inline void expect_right_end(const StopRule& rule, const std::vector<PassFacts>& facts,
                             double slack) {
  ASSERT_LE(facts.size(), rule.max_iterations);
  for (std::size_t p = 0; p < facts.size(); ++p) {
    double excess = 1.0; // above the threshold
    if (rule.kind == StopRule::Kind::loss && p > 0) {
      excess = std::abs(facts[p].loss - facts[p - 1].loss) - rule.threshold;
    } else if (rule.kind == StopRule::Kind::shift) {
      excess = facts[p].squared_shift - rule.threshold;
    } else if (rule.kind == StopRule::Kind::labels) {
      excess = facts[p].labels_changed ? 1.0 : -1.0;
    }
    if (p + 1 < facts.size()) {
      EXPECT_GT(excess, -slack) << "pass " << p << " should have been the last";
    } else if (facts.size() < rule.max_iterations) {
      EXPECT_LE(excess, slack) << "pass " << p << " should not have been the last";
    }
  }
}

} // namespace clusterbench::variant_tests

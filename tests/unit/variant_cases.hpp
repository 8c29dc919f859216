// Small awkward problems for the tests of variants, and a variant's answers to them with everything
// that it recorded. In a namespace of its own: the harness has a Recorder and an Answer, too.
#pragma once

#include "impls/contract.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

namespace clusterbench::variant_tests {

using Doubles = std::vector<double>;

/// A problem that owns its arrays.
template <typename T>
struct Case {
  std::size_t n = 0, d = 0, k = 0;
  std::vector<T> points = {}, centroids = {}, memberships = {};
  StopRule stop = {};
  double fuzzifier = 2.0;
  int threads = 1;

  Problem<T> problem() const {
    Problem<T> problem;
    problem.n = n;
    problem.d = d;
    problem.k = k;
    problem.points = points;
    problem.centroids = centroids;
    problem.memberships = memberships;
    problem.stop = stop;
    problem.fuzzifier = fuzzifier;
    problem.threads = threads;
    return problem;
  }
};

template <typename T>
struct Recorder : Observer<T> {
  std::vector<std::vector<T>> passes;
  Doubles printed_losses;
  std::size_t phases = 0;

  bool recording() const override { return true; }
  void pass(std::span<const T> centroids) override {
    passes.emplace_back(centroids.begin(), centroids.end());
  }
  void phase(std::string_view, double seconds) override { phases += seconds >= 0.0 ? 1 : 0; }
  void printed_loss(double loss) override { printed_losses.push_back(loss); }
};

/// What a variant answered: its recorded passes, and what it returned.
template <typename T>
struct Answer {
  Recorder<T> recorder;
  std::vector<std::int32_t> labels;
  std::vector<T> centroids, memberships;
  std::size_t iterations = 0;
};

template <typename T>
std::unique_ptr<Variant<T>> make(const RegisteredVariant& registered) {
  const auto& factory = [&]() -> const auto& {
    if constexpr (std::is_same_v<T, float>) {
      return registered.factories.f32;
    } else {
      return registered.factories.f64;
    }
  }
  ();
  return factory ? factory() : nullptr;
}

inline std::vector<RegisteredVariant> cpu_variants(Family family) {
  std::vector<RegisteredVariant> found;
  std::ranges::copy_if(registered_variants(), std::back_inserter(found), [&](const auto& variant) {
    const Meta& meta = variant.meta;
    return meta.family == family && meta.device == Device::cpu && meta.launch == Launch::process;
  });
  return found;
}

template <typename T>
void fetch(Variant<T>& variant, const Case<T>& test, bool fcm, Answer<T>& answer) {
  answer.labels.assign(test.n, -7);
  answer.centroids.assign(test.k * test.d, T{-7});
  answer.memberships.assign(fcm ? test.n * test.k : 0, T{-7});
  Result<T> result{
      .labels = answer.labels, .centroids = answer.centroids, .memberships = answer.memberships};
  variant.fetch(result);
  answer.iterations = result.iterations;
}

/// Runs twice, first timed and then recorded: the second run must restart and answer the same.
template <typename T>
Answer<T> answer_of(const RegisteredVariant& registered, Variant<T>& variant, const Case<T>& test) {
  const bool fcm = registered.meta.family == Family::fcm;
  Answer<T> first, second;
  Observer<T> nobody;
  variant.prepare(test.problem());
  variant.run(nobody);
  fetch(variant, test, fcm, first);
  variant.run(second.recorder);
  fetch(variant, test, fcm, second);
  if (registered.meta.deterministic) {
    EXPECT_EQ(first.labels, second.labels);
    EXPECT_EQ(first.centroids, second.centroids);
    EXPECT_EQ(first.memberships, second.memberships);
    EXPECT_EQ(first.iterations, second.iterations);
  }
  EXPECT_EQ(second.recorder.passes.size(), second.iterations);
  EXPECT_GE(second.recorder.phases, second.iterations);
  EXPECT_EQ(second.recorder.passes.back(), second.centroids);
  return second;
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

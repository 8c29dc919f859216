// Every registered CPU variant on small awkward problems, one pass at a time: from the centroids
// that the variant itself produced, a reference in double says what the next pass must produce, so
// the rounding of one pass cannot grow into another clustering. Ties and empty clusters are exact.
#include "impls/contract.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace clusterbench {
namespace {

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

std::vector<RegisteredVariant> cpu_variants(Family family) {
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
double squared_distance(const T* x, const T* c, std::size_t d) {
  double sum = 0.0;
  for (std::size_t f = 0; f < d; ++f) {
    sum += (double{x[f]} - double{c[f]}) * (double{x[f]} - double{c[f]});
  }
  return sum;
}

/// One pass of the reference.
struct Step {
  std::vector<std::int32_t> labels;
  std::vector<bool> unsure; ///< [n] rounding may decide the label
  Doubles centroids, memberships;
  double loss = 0.0;
};

template <typename T>
Doubles weighted_means(const Case<T>& test, const Doubles& weights, const std::vector<T>& old) {
  Doubles means(old.begin(), old.end());
  for (std::size_t j = 0; j < test.k; ++j) {
    long double total = 0.0;
    for (std::size_t i = 0; i < test.n; ++i) {
      total += weights[i * test.k + j];
    }
    for (std::size_t f = 0; f < test.d && total > 0.0; ++f) {
      long double sum = 0.0;
      for (std::size_t i = 0; i < test.n; ++i) {
        sum += weights[i * test.k + j] * static_cast<long double>(test.points[i * test.d + f]);
      }
      means[j * test.d + f] = static_cast<double>(sum / total);
    }
  }
  return means;
}

template <typename T>
Step kmeans_step(const Case<T>& test, const std::vector<T>& entering) {
  const double rounding = 8.0 * std::sqrt(double(test.d) + 8.0) * std::numeric_limits<T>::epsilon();
  const std::vector<T> origin(test.d);
  Step step;
  Doubles weights(test.n * test.k);
  for (std::size_t i = 0; i < test.n; ++i) {
    const T* x = &test.points[i * test.d];
    Doubles distances;
    for (std::size_t j = 0; j < test.k; ++j) {
      distances.push_back(squared_distance(x, &entering[j * test.d], test.d));
    }
    const auto best = std::ranges::min_element(distances) - distances.begin();
    const double smallest = distances[static_cast<std::size_t>(best)];
    bool unsure = false;
    for (std::size_t j = 0; j < test.k; ++j) {
      const double size = squared_distance(x, origin.data(), test.d) +
                          squared_distance(&entering[j * test.d], origin.data(), test.d);
      unsure |= std::cmp_not_equal(j, best) && distances[j] - smallest <= rounding * size;
    }
    step.labels.push_back(static_cast<std::int32_t>(best));
    step.unsure.push_back(unsure);
    step.loss += std::sqrt(smallest);
    weights[i * test.k + static_cast<std::size_t>(best)] = 1.0;
  }
  step.centroids = weighted_means(test, weights, entering);
  return step;
}

Doubles powers(const Doubles& values, double exponent) {
  Doubles result;
  std::ranges::transform(values, std::back_inserter(result),
                         [&](double value) { return std::pow(value, exponent); });
  return result;
}

/// Memberships by the textbook's double sum, in the centres that enter.
template <typename T>
Step fcm_memberships(const Case<T>& test, const std::vector<T>& centres) {
  Step step;
  for (std::size_t i = 0; i < test.n; ++i) {
    Doubles distances;
    for (std::size_t j = 0; j < test.k; ++j) {
      distances.push_back(squared_distance(&test.points[i * test.d], &centres[j * test.d], test.d));
    }
    const auto zeros = static_cast<double>(std::ranges::count(distances, 0.0));
    for (const double distance : distances) {
      double sum = 0.0;
      for (const double other : distances) {
        sum += std::pow(distance / other, 1.0 / (test.fuzzifier - 1.0));
      }
      const double u = zeros > 0.0 ? (distance == 0.0 ? 1.0 / zeros : 0.0) : 1.0 / sum;
      step.memberships.push_back(u);
      step.loss += std::pow(u, test.fuzzifier) * distance;
    }
  }
  return step;
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

std::vector<StopRule> stop_rules(double loss) {
  using Kind = StopRule::Kind;
  return {{Kind::iterations, 0.0, 1}, {Kind::iterations, 0.0, 4}, {Kind::loss, 0.01 * loss, 12},
          {Kind::labels, 0.0, 12},    {Kind::shift, 1e-2, 12},    {Kind::shift, 0.0, 12}};
}

struct Tally {
  std::size_t variants = 0, passes = 0, unsure = 0;
};

/// Whether a run ended when its rule says so, given the facts of its passes. A rule that rounding
/// may decide either way (`slack`) is not judged.
void expect_right_end(const StopRule& rule, const std::vector<PassFacts>& facts, double slack) {
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

template <typename T>
void check_kmeans(const RegisteredVariant& registered, const Case<T>& test, Tally& tally) {
  SCOPED_TRACE(registered.meta.name + ": n " + std::to_string(test.n) + ", d " +
               std::to_string(test.d) + ", k " + std::to_string(test.k) + ", stop " +
               std::to_string(static_cast<int>(test.stop.kind)) + ", threads " +
               std::to_string(test.threads));
  const auto variant = make<T>(registered);
  const Meta& meta = registered.meta;
  if (!variant || !variant->refuse(test.problem()).empty()) {
    return;
  }
  ASSERT_TRUE(test.d >= meta.min_d && test.d <= meta.max_d && test.k <= meta.max_k);
  ++tally.variants;
  const Answer<T> answer = answer_of(registered, *variant, test);

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
      if (!variant || !variant->refuse(test.problem()).empty() || registered.meta.reseeds_empty) {
        continue;
      }
      check_kmeans(registered, test, tally);
      const Answer<T> answer = answer_of(registered, *variant, test);
      for (std::size_t f = 0; f < d; ++f) {
        EXPECT_EQ(answer.centroids[2 * d + f], T{1000}) << registered.meta.name;
      }
      EXPECT_EQ(std::ranges::count(answer.labels, 2), 0) << registered.meta.name;
    }
  }
  EXPECT_GE(tally.variants, 5u);
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
        if (variant && variant->refuse(test.problem()).empty()) {
          const Answer<T> answer = answer_of(registered, *variant, test);
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
    EXPECT_TRUE(!variant || variant->refuse(test.problem()).empty() == takes)
        << registered.meta.name;
  }
  test.fuzzifier = 1.0;
  for (const RegisteredVariant& registered : cpu_variants(Family::fcm)) {
    const auto variant = make<T>(registered);
    EXPECT_TRUE(!variant || !variant->refuse(test.problem()).empty()) << registered.meta.name;
  }
}

// Article 000's figures hang on this: every operation rounds, in the order of the program. A fused
// multiply-add (a build without -ffp-contract=off) or a reordered sum gives other last digits;
// `volatile` keeps the reference here from the same temptation.
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
      const Answer<float> answer = answer_of(*registered, *variant, test);
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

template <typename T>
void check_fcm(const RegisteredVariant& registered, const Case<T>& test, Tally& tally) {
  SCOPED_TRACE(registered.meta.name + ": n " + std::to_string(test.n) + ", d " +
               std::to_string(test.d) + ", k " + std::to_string(test.k) + ", m " +
               std::to_string(test.fuzzifier) + ", stop " +
               std::to_string(static_cast<int>(test.stop.kind)) + ", threads " +
               std::to_string(test.threads) + (test.memberships.empty() ? "" : ", memberships"));
  const auto variant = make<T>(registered);
  if (!variant || !variant->refuse(test.problem()).empty()) {
    return;
  }
  ++tally.variants;
  const Answer<T> answer = answer_of(registered, *variant, test);
  const bool from_centres = test.memberships.empty();

  // Relative errors of a squared distance grow by the exponent 1 / (m - 1), those of u by m.
  const double grain = double(test.d + test.k + 16) * std::numeric_limits<T>::epsilon() *
                       (test.fuzzifier + 1.0 / (test.fuzzifier - 1.0));
  std::vector<T> entering(test.centroids);
  entering.resize(test.k * test.d);
  Step before = from_centres ? fcm_memberships(test, entering) : Step{};
  if (!from_centres) {
    before.memberships.assign(test.memberships.begin(), test.memberships.end());
  }
  std::vector<PassFacts> facts;
  std::vector<std::int32_t> labels(test.n, -1);
  bool judge_end = true;
  for (const std::vector<T>& produced : answer.recorder.passes) {
    ++tally.passes;
    const Doubles centres =
        weighted_means(test, powers(before.memberships, test.fuzzifier), entering);
    double shift = facts.empty() && !from_centres ? INFINITY : 0.0;
    for (std::size_t c = 0; c < produced.size(); ++c) {
      EXPECT_NEAR(double{produced[c]}, centres[c], 40.0 * grain);
      shift += std::pow(double{produced[c]} - double{entering[c]}, 2);
    }
    const Step after = fcm_memberships(test, produced);
    const Step& current = from_centres ? before : after; // whose memberships this pass computed
    PassFacts pass{.loss = current.loss, .labels_changed = false, .squared_shift = shift};
    for (std::size_t i = 0; i < test.n; ++i) {
      Doubles u(&current.memberships[i * test.k], &current.memberships[i * test.k] + test.k);
      const auto label = std::ranges::max_element(u) - u.begin();
      const double largest = std::exchange(u[static_cast<std::size_t>(label)], -1.0);
      const bool unsure = largest - *std::ranges::max_element(u) < 4.0 * grain;
      pass.labels_changed |= std::exchange(labels[i], static_cast<std::int32_t>(label)) != label;
      judge_end &= !(unsure && test.stop.kind == StopRule::Kind::labels);
      if (facts.size() + 1 == answer.iterations) {
        double sum = 0.0;
        for (std::size_t j = 0; j < test.k; ++j) {
          const double membership = double{answer.memberships[i * test.k + j]};
          EXPECT_NEAR(membership, current.memberships[i * test.k + j], 4.0 * grain);
          sum += membership;
        }
        EXPECT_NEAR(sum, 1.0, 4.0 * grain);
        const auto row = std::span(answer.memberships).subspan(i * test.k, test.k);
        EXPECT_EQ(answer.labels[i], std::ranges::max_element(row) - row.begin());
      }
    }
    facts.push_back(pass);
    before = after;
    entering = produced;
  }
  if (judge_end) {
    const double slack = 8.0 * grain * (facts.front().loss + 1.0);
    expect_right_end(test.stop, facts, test.stop.kind == StopRule::Kind::loss ? slack : 1e-9);
  } else {
    ++tally.unsure;
  }
}

TYPED_TEST(CpuVariants, FcmPassByPass) {
  using T = TypeParam;
  Tally tally;
  for (const std::size_t k : {1, 2, 7}) {
    for (const std::size_t n : {std::size_t{1}, k, k + 1, std::size_t{33}, std::size_t{257}}) {
      for (const std::size_t d : {1, 2, 9, 100}) {
        for (const double m : {2.0, 1.4}) {
          if (n < k) {
            continue;
          }
          // The centres are samples, so every first pass has distances of exactly zero.
          Case<T> test = blobs<T>(n, d, k, 1000 * n + 10 * d + k);
          test.fuzzifier = m;
          for (const StopRule& rule : stop_rules(fcm_memberships(test, test.centroids).loss)) {
            test.stop = rule;
            for (const int threads : {1, 2}) {
              test.threads = threads;
              for (const RegisteredVariant& registered : cpu_variants(Family::fcm)) {
                check_fcm(registered, test, tally);
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(tally.variants, 500u);
  EXPECT_LT(tally.unsure, tally.variants / 4);
}

TYPED_TEST(CpuVariants, FcmFromMemberships) {
  using T = TypeParam;
  Tally tally;
  for (const std::size_t d : {1, 2, 9, 100}) {
    for (const std::size_t n : {5, 33, 257}) {
      for (const double m : {2.0, 3.0}) {
        Case<T> test = blobs<T>(n, d, 5, d + n);
        test.centroids.clear();
        test.fuzzifier = m;
        std::mt19937_64 random(n);
        for (std::size_t i = 0; i < n; ++i) {
          Doubles row(5);
          std::ranges::generate(row, [&] { return 0.01 + double(random() % 1000) / 1000.0; });
          const double sum = row[0] + row[1] + row[2] + row[3] + row[4];
          for (const double value : row) {
            test.memberships.push_back(static_cast<T>(value / sum));
          }
        }
        for (const StopRule& rule : stop_rules(double(n))) {
          test.stop = rule;
          test.threads = 2;
          for (const RegisteredVariant& registered : cpu_variants(Family::fcm)) {
            check_fcm(registered, test, tally);
          }
        }
      }
    }
  }
  EXPECT_GT(tally.variants, 100u);
}

// A sample on two centres belongs to each by one half, whatever the fuzzifier.
TYPED_TEST(CpuVariants, FcmSharesASampleAmongTheCentresItLiesOn) {
  using T = TypeParam;
  Tally tally;
  for (const double m : {2.0, 1.4}) {
    Case<T> test = blobs<T>(33, 9, 4, 7);
    std::copy_n(test.points.begin(), 9, test.centroids.begin() + 18); // centre 2 is centre 0
    test.fuzzifier = m;
    test.stop = {.kind = StopRule::Kind::iterations, .max_iterations = 1};
    for (const RegisteredVariant& registered : cpu_variants(Family::fcm)) {
      check_fcm(registered, test, tally);
      const auto variant = make<T>(registered);
      const Answer<T> answer = answer_of(registered, *variant, test);
      const std::vector<T> first_row(answer.memberships.begin(), answer.memberships.begin() + 4);
      EXPECT_EQ(first_row, (std::vector<T>{T{0.5}, T{0}, T{0.5}, T{0}})) << registered.meta.name;
    }
  }
  EXPECT_GE(tally.variants, 2u);
}

} // namespace
} // namespace clusterbench

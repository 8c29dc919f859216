// What the contract asks of every registered CPU variant beyond the right numbers: all of the
// answer is written, it hangs on the points and the start alone, and the centroids that entered the
// last pass are those from which one exact step leads to the answer.
#include "tests/unit/variant_cases.hpp"
#include "tests/unit/variant_reference.hpp"

#include <numeric>
#include <tuple>

namespace clusterbench::variant_tests {
namespace {

template <typename T>
Case<T> from_memberships(Case<T> test) {
  std::mt19937_64 random(test.n);
  test.centroids.clear();
  for (std::size_t i = 0; i < test.n; ++i) {
    Doubles row(test.k);
    std::ranges::generate(row, [&] { return 0.01 + double(random() % 1000) / 1000.0; });
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    std::ranges::transform(row, std::back_inserter(test.memberships),
                           [&](double value) { return static_cast<T>(value / sum); });
  }
  return test;
}

/// Shapes that are multiples of nothing, k = n, one feature, one cluster, a cluster without points.
template <typename T>
std::vector<Case<T>> cases(Family family) {
  std::vector<Case<T>> found;
  for (const auto& [n, d, k] : {std::tuple<std::size_t, std::size_t, std::size_t>{1, 1, 1},
                                {3, 2, 3},
                                {65, 1, 1},
                                {129, 1, 7},
                                {777, 2, 5},
                                {1001, 2, 40},
                                {515, 3, 9},
                                {333, 17, 1},
                                {67, 19, 67},
                                {1003, 9, 16},
                                {409, 37, 30},
                                {300, 100, 70},
                                {205, 130, 8}}) {
    if (family == Family::fcm && k > 16) { // slow by the formulas of the reference
      continue;
    }
    found.push_back(blobs<T>(n, d, k, n + d + k));
    if (k > 4) {
      found.push_back(found.back());
      std::fill_n(found.back().centroids.begin() + static_cast<std::ptrdiff_t>(d), d, T{1000});
    }
    if (family == Family::fcm) {
      found.push_back(from_memberships(blobs<T>(n, d, k, n + d + k)));
    }
  }
  return found;
}

/// Another start for the same points: other rows, or the memberships of other points.
template <typename T>
Case<T> with_another_start(Case<T> test) {
  if (test.memberships.empty()) {
    std::copy(test.points.end() - std::ssize(test.centroids), test.points.end(),
              test.centroids.begin());
  } else {
    std::ranges::rotate(test.memberships,
                        test.memberships.begin() + static_cast<std::ptrdiff_t>(test.k));
  }
  return test;
}

template <typename T>
void expect_one_step(const Meta& meta, const Case<T>& test, const OwnedAnswer<T>& answer) {
  if (meta.family == Family::kmeans) {
    const Step step = kmeans_step(test, answer.entering);
    bool sure = true;
    for (std::size_t i = 0; i < test.n; ++i) {
      EXPECT_TRUE(step.unsure[i] || answer.labels[i] == step.labels[i]) << "point " << i;
      sure &= !step.unsure[i] || answer.labels[i] == step.labels[i];
    }
    for (std::size_t c = 0; c < answer.centroids.size() && sure; ++c) {
      EXPECT_NEAR(answer.centroids[c], step.centroids[c],
                  double(test.n) * std::numeric_limits<T>::epsilon() *
                      (10.0 + std::abs(step.centroids[c])));
    }
    return;
  }
  // FCM: started from memberships, the centres came before the memberships of the last pass.
  const bool from_centres = test.memberships.empty();
  if (!from_centres && answer.iterations == 1) { // no centres entered
    return;
  }
  const double grain = 40.0 * double(test.d + test.k + 16) * std::numeric_limits<T>::epsilon();
  const Step before = fcm_memberships(test, answer.entering);
  const Step closing = from_centres ? before : fcm_memberships(test, answer.centroids);
  const Doubles centres =
      weighted_means(test, powers(before.memberships, test.fuzzifier), answer.entering);
  for (std::size_t c = 0; c < centres.size(); ++c) {
    EXPECT_NEAR(answer.centroids[c], centres[c], grain * (1.0 + std::abs(centres[c])));
  }
  for (std::size_t u = 0; u < answer.memberships.size(); ++u) {
    EXPECT_NEAR(answer.memberships[u], closing.memberships[u], grain);
  }
}

template <typename T>
std::size_t check(const RegisteredVariant& registered, const Case<T>& test) {
  const Meta& meta = registered.meta;
  SCOPED_TRACE(meta.name + ": n " + std::to_string(test.n) + ", d " + std::to_string(test.d) +
               ", k " + std::to_string(test.k) + ", stop " +
               std::to_string(static_cast<int>(test.stop.kind)) + ", threads " +
               std::to_string(test.threads) + (test.memberships.empty() ? "" : ", memberships"));
  const auto variant = make<T>(registered), fresh = make<T>(registered);
  if (!variant || !variant->refuse(test.shape()).empty()) {
    return 0;
  }
  const Case<T> other = with_another_start(test);
  const OwnedAnswer<T> first = prepare_and_run(*fresh, meta.family, test);
  const OwnedAnswer<T> elsewhere = prepare_and_run(*variant, meta.family, other, false);
  const OwnedAnswer<T> second = run(*variant, meta.family, test, false);
  const OwnedAnswer<T> over_another = run_into(elsewhere, *variant, test, false);
  const OwnedAnswer<T> over_itself = run_into(first, *variant, test, false);
  const OwnedAnswer<T> over_zeros = run_into(room_for(meta.family, test, 0), *variant, test, false);
  if (meta.deterministic) {
    EXPECT_EQ(second, first);
    EXPECT_EQ(over_another, first);
    EXPECT_EQ(over_itself, first);
    EXPECT_EQ(over_zeros, first);
    EXPECT_EQ(run(*fresh, meta.family, other, false), elsewhere);
  }
  for (const OwnedAnswer<T>* answer : {&first, &elsewhere, &second}) {
    EXPECT_EQ(poisoned(answer->labels), 0u);
    EXPECT_EQ(poisoned(answer->centroids), 0u);
    EXPECT_EQ(poisoned(answer->entering), 0u);
    EXPECT_EQ(poisoned(answer->memberships), 0u);
  }
  const auto& passes = first.recorder.passes;
  EXPECT_EQ(passes.size(), first.iterations);
  EXPECT_EQ(passes.back(), first.centroids);
  if (passes.size() > 1) {
    EXPECT_EQ(first.entering, passes[passes.size() - 2]);
  } else if (test.memberships.empty()) {
    EXPECT_EQ(first.entering, test.centroids);
  }
  expect_one_step(meta, test, first);
  expect_one_step(meta, other, elsewhere);
  return 1;
}

template <typename T>
class CpuAnswers : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(CpuAnswers, Precisions);

TYPED_TEST(CpuAnswers, HangOnThePointsAndTheStartAlone) {
  using T = TypeParam;
  for (const Family family : {Family::kmeans, Family::fcm}) {
    std::size_t checked = 0;
    for (Case<T> test : cases<T>(family)) {
      using Kind = StopRule::Kind;
      for (const StopRule& rule : {StopRule{Kind::iterations, 0.0, 1},
                                   {Kind::iterations, 0.0, 4},
                                   {Kind::loss, 0.01 * double(test.n), 9},
                                   {Kind::labels, 0.0, 9}}) {
        test.stop = rule;
        test.threads = rule.max_iterations == 4 ? 1 : 2;
        for (const RegisteredVariant& registered : cpu_variants(family)) {
          checked += check(registered, test);
        }
      }
    }
    EXPECT_GT(checked, 200u);
  }
}

} // namespace
} // namespace clusterbench::variant_tests

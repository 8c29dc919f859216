// Every registered CPU variant of fuzzy c-means on small awkward problems, one pass at a time, as
// test_cpu_variants does for k-means.
#include "tests/unit/variant_cases.hpp"
#include "tests/unit/variant_reference.hpp"

#include <string>

namespace clusterbench::variant_tests {
namespace {

template <typename T>
void check_fcm(const RegisteredVariant& registered, const Case<T>& test, Tally& tally) {
  SCOPED_TRACE(registered.meta.name + ": n " + std::to_string(test.n) + ", d " +
               std::to_string(test.d) + ", k " + std::to_string(test.k) + ", m " +
               std::to_string(test.fuzzifier) + ", stop " +
               std::to_string(static_cast<int>(test.stop.kind)) + ", threads " +
               std::to_string(test.threads) + (test.memberships.empty() ? "" : ", memberships"));
  const auto variant = make<T>(registered);
  if (!variant || !variant->refuse(test.shape()).empty()) {
    return;
  }
  ++tally.variants;
  const OwnedAnswer<T> answer = answer_of(registered, *variant, test);
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

template <typename T>
class FcmVariants : public testing::Test {};
using Precisions = testing::Types<float, double>;
TYPED_TEST_SUITE(FcmVariants, Precisions);

TYPED_TEST(FcmVariants, PassByPass) {
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

TYPED_TEST(FcmVariants, FromMemberships) {
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
TYPED_TEST(FcmVariants, SharesASampleAmongTheCentresItLiesOn) {
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
      const OwnedAnswer<T> answer = answer_of(registered, *variant, test);
      const std::vector<T> first_row(answer.memberships.begin(), answer.memberships.begin() + 4);
      EXPECT_EQ(first_row, (std::vector<T>{T{0.5}, T{0}, T{0.5}, T{0}})) << registered.meta.name;
    }
  }
  EXPECT_GE(tally.variants, 2u);
}

} // namespace
} // namespace clusterbench::variant_tests

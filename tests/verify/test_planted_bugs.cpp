// Every planted bug must come out wrong, by the check that is meant for it, with a message that
// says where: on the qualification problems, and (what can be seen there) on a problem of a
// table's quick size.
#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "tests/verify/planted_bugs.hpp"
#include "tests/verify/run_variant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using planted::Bug;

/// A bug and the check that must find it.
struct Case {
  const char* name;
  Family family;
  Bug bug;
  const char* check;
  /// The finding names this place ("point", "cluster", "iteration").
  const char* place;
  /// Whether the problem of a table's quick size shows it; if not, the qualification must.
  bool shows_at_quick_size = true;
};

const Case kCases[] = {
    {"tail_block", Family::kmeans, Bug::drops_tail_block, "means", "cluster"},
    {"one_row", Family::kmeans, Bug::drops_one_row, "means", "cluster", false},
    {"weights", Family::kmeans, Bug::ignores_weights, "means", "cluster", false},
    {"stale_centroids", Family::kmeans, Bug::stale_centroids, "labels", "point"},
    {"racy_sums", Family::kmeans, Bug::racy_sums, "means", "cluster"},
    {"one_block", Family::kmeans, Bug::counts_of_one_block, "means", "cluster"},
    {"initial_state", Family::kmeans, Bug::returns_initial_state, "means", "cluster"},
    {"nan", Family::kmeans, Bug::not_a_number, "finite", "cluster"},
    {"labels_from_1", Family::kmeans, Bug::labels_off_by_one, "label range", "point"},
    {"next_label", Family::kmeans, Bug::wrong_labels_in_range, "labels", "point"},
    {"squared_loss", Family::kmeans, Bug::squared_loss, "stop rule", "iteration", false},
    {"stops_early", Family::kmeans, Bug::stops_early, "passes", "iteration"},
    {"late_stop", Family::kmeans, Bug::stops_early, "stop rule", "iteration", false},
    {"one_more", Family::kmeans, Bug::one_pass_too_many, "iterations", "iterations"},
    {"one_more_after_rule", Family::kmeans, Bug::one_pass_too_many, "stop rule", "iteration",
     false},
    {"one_more_hidden", Family::kmeans, Bug::hides_one_pass_too_many, "recording", "cluster"},
    {"empty_to_origin", Family::kmeans, Bug::empty_to_origin, "passes", "keeps its centroid",
     false},
    {"ties_to_highest", Family::kmeans, Bug::ties_to_highest, "labels", "point", false},
    {"wrong_later", Family::kmeans, Bug::wrong_later, "recording", "cluster"},
    {"random_labels", Family::kmeans, Bug::random_labels, "labels", "point"},
    {"inertia_too_high", Family::kmeans, Bug::inertia_too_high, "objective", "iteration"},
    {"ten_labels", Family::kmeans, Bug::ten_wrong_labels, "labels", "point"},
    {"every_second_row", Family::kmeans, Bug::every_second_row, "means", "cluster"},
    {"fewer_passes", Family::kmeans, Bug::makes_fewer_passes, "iterations", "iterations"},
    {"stale_entering", Family::kmeans, Bug::stale_entering, "entering", "recorded"},
    {"centroids_before", Family::kmeans, Bug::centroids_of_pass_before, "means", "cluster"},
    {"poison", Family::kmeans, Bug::leaves_poison, "written", "labels"},

    {"tail_block", Family::fcm, Bug::drops_tail_block, "centres", "cluster"},
    {"one_row", Family::fcm, Bug::drops_one_row, "centres", "cluster", false},
    {"stale_centroids", Family::fcm, Bug::stale_centroids, "memberships", "point"},
    {"racy_sums", Family::fcm, Bug::racy_sums, "centres", "cluster"},
    {"one_block", Family::fcm, Bug::counts_of_one_block, "centres", "cluster"},
    {"initial_state", Family::fcm, Bug::returns_initial_state, "centres", "cluster"},
    {"nan", Family::fcm, Bug::not_a_number, "finite", "cluster"},
    {"labels_from_1", Family::fcm, Bug::labels_off_by_one, "label range", "point"},
    {"next_label", Family::fcm, Bug::wrong_labels_in_range, "labels", "point"},
    {"plain_loss", Family::fcm, Bug::squared_loss, "stop rule", "iteration", false},
    {"wrong_exponent", Family::fcm, Bug::wrong_exponent, "memberships", "point"},
    {"unweighted_power", Family::fcm, Bug::unweighted_power, "centres", "cluster"},
    {"not_normalised", Family::fcm, Bug::not_normalised, "row sums", "point"},
    {"stops_early", Family::fcm, Bug::stops_early, "passes", "iteration"},
    {"one_more", Family::fcm, Bug::one_pass_too_many, "iterations", "iterations"},
    {"one_more_hidden", Family::fcm, Bug::hides_one_pass_too_many, "recording", "cluster"},
    {"ties_to_highest", Family::fcm, Bug::ties_to_highest, "labels", "point", false},
    {"wrong_later", Family::fcm, Bug::wrong_later, "recording", "cluster"},
    {"inertia_too_high", Family::fcm, Bug::inertia_too_high, "objective", "iteration"},
    {"ten_labels", Family::fcm, Bug::ten_wrong_labels, "labels", "point"},
    {"every_second_row", Family::fcm, Bug::every_second_row, "centres", "cluster"},
    {"fewer_passes", Family::fcm, Bug::makes_fewer_passes, "iterations", "iterations"},
    {"stale_entering", Family::fcm, Bug::stale_entering, "entering", "recorded"},
    {"centroids_before", Family::fcm, Bug::centroids_of_pass_before, "centres", "cluster"},
    {"poison", Family::fcm, Bug::leaves_poison, "written", "labels"},
};

/// A problem and the oracle's run of it, which many cases share.
template <typename T>
struct Exercise {
  explicit Exercise(Family family, OwnedProblem<T> problem)
      : owned(std::move(problem)), oracle(run_oracle(family, owned.view())) {}
  OwnedProblem<T> owned;
  OracleRun oracle;
};

template <typename T>
const std::vector<Exercise<T>>& qualification(Family family) {
  const auto all = [](Family of) {
    std::vector<Exercise<T>> exercises;
    for (auto& problem : qualification_problems<T>(of)) {
      exercises.emplace_back(of, std::move(problem));
    }
    return exercises;
  };
  static const auto kmeans = all(Family::kmeans);
  static const auto fcm = all(Family::fcm);
  return family == Family::kmeans ? kmeans : fcm;
}

template <typename T>
Verdict judge(const Case& planted, const Exercise<T>& exercise, bool with_recording) {
  const Problem<T> problem = exercise.owned.view();
  Meta meta;
  meta.family = planted.family;
  const auto variant = make<T>(planted.family, planted.bug);
  prepare(*variant, problem);
  auto answer = run_once(*variant, planted.family, problem);
  if (planted.bug == Bug::wrong_later) {
    const Verdict first = verify_answer(meta, problem, answer.view(), exercise.oracle);
    EXPECT_TRUE(first.right()) << "the first run is right\n" << first.message();
    answer = run_once(*variant, planted.family, problem);
  }
  if (!with_recording) {
    answer.recorded.clear();
  }
  return verify_answer(meta, problem, answer.view(), exercise.oracle);
}

/// Whether a verdict holds the finding that the case asks for, with a place and numbers in it.
bool is_found(const Case& planted, const Verdict& verdict) {
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), [&](const Finding& f) {
    return f.check == planted.check && f.where.find(planted.place) != std::string::npos &&
           std::any_of(f.where.begin(), f.where.end(),
                       [](unsigned char c) { return std::isdigit(c) != 0; });
  });
}

class PlantedBug : public testing::TestWithParam<Case> {};

template <typename T>
void expect_found_by_qualification(const Case& planted) {
  bool found = false;
  std::set<std::string> other;
  for (const Exercise<T>& exercise : qualification<T>(planted.family)) {
    const Verdict verdict = judge(planted, exercise, true);
    found = found || is_found(planted, verdict);
    for (const Finding& finding : verdict.findings) {
      other.insert(finding.check);
    }
  }
  EXPECT_TRUE(found) << "no '" << planted.check << "' names a " << planted.place
                     << "; found: " << testing::PrintToString(other);
}

TEST_P(PlantedBug, isFoundByQualificationInFloat) {
  expect_found_by_qualification<float>(GetParam());
}
TEST_P(PlantedBug, isFoundByQualificationInDouble) {
  expect_found_by_qualification<double>(GetParam());
}

/// Overlapping normal clouds, still moving after 5 passes; 20011 leaves a tail behind every block.
template <typename T>
OwnedProblem<T> quick_problem() {
  OwnedProblem<T> problem;
  problem.n = 20011;
  problem.d = 8;
  problem.k = 4;
  problem.stop = {StopRule::Kind::iterations, 0.0, 5};
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> middles(problem.k * problem.d);
  for (double& middle : middles) {
    middle = 2.0 * normal(random);
  }
  for (std::size_t i = 0; i < problem.n; ++i) {
    for (std::size_t f = 0; f < problem.d; ++f) {
      // The tail lies apart, as the last rows of sorted data do.
      const double middle = i >= problem.n / 32 * 32 ? 9.0 : middles[i % problem.k * problem.d + f];
      problem.points.push_back(static_cast<T>(middle + normal(random)));
    }
  }
  for (std::size_t j = 0; j < problem.k; ++j) { // all from one cloud: it takes long to part them
    const auto row = problem.points.begin() + static_cast<std::ptrdiff_t>(4 * j * problem.d);
    problem.centroids.insert(problem.centroids.end(), row,
                             row + static_cast<std::ptrdiff_t>(problem.d));
  }
  return problem;
}

template <typename T>
void expect_found_at_quick_size(const Case& planted) {
  const Exercise<T> exercise(planted.family, quick_problem<T>());
  const Verdict verdict = judge(planted, exercise, true);
  EXPECT_TRUE(is_found(planted, verdict)) << verdict.message();
}

class PlantedBugAtQuickSize : public testing::TestWithParam<Case> {};

TEST_P(PlantedBugAtQuickSize, isFound) {
  expect_found_at_quick_size<float>(GetParam());
  expect_found_at_quick_size<double>(GetParam());
}

std::string name_of(const testing::TestParamInfo<Case>& test) {
  return std::string(test.param.family == Family::kmeans ? "kmeans_" : "fcm_") + test.param.name;
}

std::vector<Case> cases_of_quick_size() {
  std::vector<Case> cases;
  std::copy_if(std::begin(kCases), std::end(kCases), std::back_inserter(cases),
               [](const Case& planted) { return planted.shows_at_quick_size; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBug, testing::ValuesIn(kCases), name_of);
INSTANTIATE_TEST_SUITE_P(All, PlantedBugAtQuickSize, testing::ValuesIn(cases_of_quick_size()),
                         name_of);

/// The sharpest test of the tolerances: a lost row is wrong on every single problem.
template <typename T>
void expect_row_matters_everywhere(Family family) {
  const Case planted{"one_row", family, Bug::drops_one_row, "passes", "cluster"};
  for (const Exercise<T>& exercise : qualification<T>(family)) {
    EXPECT_TRUE(is_found(planted, judge(planted, exercise, true))) << exercise.owned.name;
  }
}
TEST(LostRow, showsOnEveryKMeansProblem) {
  expect_row_matters_everywhere<float>(Family::kmeans);
  expect_row_matters_everywhere<double>(Family::kmeans);
}
TEST(LostRow, showsOnEveryFcmProblem) {
  expect_row_matters_everywhere<float>(Family::fcm);
  expect_row_matters_everywhere<double>(Family::fcm);
}

/// And not only the row in the middle: any row of any problem.
template <typename PlantedFamily>
void expect_any_row_matters(Family family) {
  const Meta meta = meta_of(family);
  for (const Exercise<float>& exercise : qualification<float>(family)) {
    const Problem<float> problem = exercise.owned.view();
    // A duplicated point that has a cluster to itself and its copies leaves no trace.
    const bool copies = exercise.owned.name.find("duplicated") != std::string::npos;
    if (copies || problem.n * problem.d * problem.k > 2000) {
      continue;
    }
    for (std::size_t row = 0; row < problem.n; ++row) {
      if (problem.weight(row) == 0.0) {
        continue;
      }
      PlantedFamily variant(Bug::drops_one_row);
      prepare(variant, problem);
      variant.drop_row(row);
      const auto answer = run_once(variant, family, problem);
      EXPECT_FALSE(verify_answer(meta, problem, answer.view(), exercise.oracle).right())
          << exercise.owned.name << ", row " << row;
    }
  }
}
TEST(LostRow, showsWhicheverItIs) {
  expect_any_row_matters<planted::PlantedKMeans<float>>(Family::kmeans);
  expect_any_row_matters<planted::PlantedFcm<float>>(Family::fcm);
}

/// As timed answers are judged. One pass more than was reported is a better answer, and shows only
/// where the objective falls by more than runs of a precision drift apart.
TEST(PlantedBugWithoutRecording, isFound) {
  const std::set<Bug> hidden = {Bug::hides_one_pass_too_many};
  for (const Case& planted : cases_of_quick_size()) {
    if (hidden.count(planted.bug) == 0) {
      const Exercise<float> exercise(planted.family, quick_problem<float>());
      EXPECT_FALSE(judge(planted, exercise, false).right()) << planted.name;
    }
  }
}

} // namespace
} // namespace clusterbench

// Runs of the oracle on disk: whole, of the problem that was asked for, and written anew otherwise.
#include "harness/judge/oracle_cache.hpp"
#include "harness/problem/problem_key.hpp"
#include "tests/verify/reference_problem.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace clusterbench {
namespace {

class OracleCache : public testing::Test {
protected:
  OracleCache()
      : folder_(std::filesystem::temp_directory_path() /
                ("oracle_cache_test_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~OracleCache() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(OracleCache, keepsEveryBit) {
  const std::vector<double> points = reference_points<double>();
  const auto problem = reference_problem<double>(points, {StopRule::Kind::iterations, 0.0, 6});
  const OracleRun run = cached_oracle_run(folder_, "problem-1", Family::kmeans, problem);
  const auto stored = load_oracle_run(folder_, "problem-1");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->iterations, run.iterations);
  ASSERT_EQ(stored->states.size(), run.states.size());
  for (std::size_t i = 0; i < run.states.size(); ++i) {
    EXPECT_EQ(stored->states[i].pass, run.states[i].pass);
    EXPECT_EQ(stored->states[i].centroids, run.states[i].centroids);
  }
  EXPECT_EQ(stored->loss, run.loss);
  EXPECT_EQ(stored->inertia, run.inertia);
  EXPECT_EQ(stored->final_objective, run.final_objective);
  EXPECT_EQ(stored->still_moving, run.still_moving);
  EXPECT_EQ(stored->stood_still_at, run.stood_still_at);
  EXPECT_EQ(stored->empty_at, run.empty_at);
  EXPECT_FALSE(load_oracle_run(folder_, "problem-2"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "a temporary file was left behind";
}

TEST_F(OracleCache, recomputesWhatIsDamaged) {
  const std::vector<double> points = reference_points<double>();
  const auto problem = reference_problem<double>(points, {StopRule::Kind::iterations, 0.0, 2});
  const OracleRun run = cached_oracle_run(folder_, "problem", Family::kmeans, problem);
  const auto file = folder_ / "problem.oracle";
  const auto size = std::filesystem::file_size(file);
  for (const std::uintmax_t length : {size - 1, size / 2, std::uintmax_t{12}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(file, length);
    EXPECT_FALSE(load_oracle_run(folder_, "problem")) << "of length " << length;
    cached_oracle_run(folder_, "problem", Family::kmeans, problem);
    EXPECT_TRUE(load_oracle_run(folder_, "problem"));
  }
  for (std::uintmax_t at = 0; at < size; at += 7) {
    {
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(static_cast<std::streamoff>(at));
      const char byte = static_cast<char>(bytes.get());
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put(static_cast<char>(byte ^ 0x10));
    }
    EXPECT_FALSE(load_oracle_run(folder_, "problem")) << "byte " << at << " flipped";
    store_oracle_run(folder_, "problem", run);
  }
}

TEST_F(OracleCache, refusesNamesThatLeaveTheFolder) {
  EXPECT_THROW(load_oracle_run(folder_, "../elsewhere"), std::invalid_argument);
  EXPECT_THROW(load_oracle_run(folder_, ""), std::invalid_argument);
}

TEST_F(OracleCache, ignoresAndRewritesWhatIsAnotherProblems) {
  const std::vector<double> points = reference_points<double>();
  const auto three = reference_problem<double>(points, {StopRule::Kind::iterations, 0.0, 3});
  const auto five = reference_problem<double>(points, {StopRule::Kind::iterations, 0.0, 5});
  const OracleRun run = cached_oracle_run(folder_, "three", Family::kmeans, three);
  // Under another name, by whoever copied it.
  std::filesystem::copy_file(folder_ / "three.oracle", folder_ / "five.oracle");
  EXPECT_FALSE(load_oracle_run(folder_, "five"));
  EXPECT_EQ(cached_oracle_run(folder_, "five", Family::kmeans, five).iterations, 5U);
  ASSERT_TRUE(load_oracle_run(folder_, "five"));
  EXPECT_EQ(load_oracle_run(folder_, "five")->iterations, 5U);
  // Whole, under its name, and of another shape.
  auto fewer = three;
  fewer.k = 2;
  fewer.centroids = fewer.centroids.first(2 * kD);
  store_oracle_run(folder_, "three", run_oracle(Family::kmeans, fewer));
  EXPECT_EQ(cached_oracle_run(folder_, "three", Family::kmeans, three).returned(), run.returned());
  EXPECT_EQ(load_oracle_run(folder_, "three")->returned(), run.returned());
}

TEST_F(OracleCache, survivesWhatIsNoFile) {
  const std::vector<double> points = reference_points<double>();
  const auto problem = reference_problem<double>(points, {StopRule::Kind::iterations, 0.0, 2});
  std::filesystem::create_directories(folder_ / "folder.oracle" / "inside");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.oracle").c_str(), 0600), 0);
  for (const char* key : {"folder", "pipe"}) {
    EXPECT_FALSE(load_oracle_run(folder_, key)) << key;
    EXPECT_EQ(cached_oracle_run(folder_, key, Family::kmeans, problem).iterations, 2U) << key;
  }
  EXPECT_TRUE(load_oracle_run(folder_, "pipe")) << "a pipe is replaced";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2)
      << "a temporary file was left behind";
}

TEST_F(OracleCache, keepsARunThatWasCutShortApart) {
  const std::vector<double> points = reference_points<double>();
  const auto problem = reference_problem<double>(points, {StopRule::Kind::iterations, 0.0, 6});
  const OracleOptions two_passes{.budget = 2.5 * 2.0 * kN * kD * kK};
  const OracleRun cut = cached_oracle_run(folder_, "problem", Family::kmeans, problem, two_passes);
  EXPECT_FALSE(cut.complete);
  EXPECT_EQ(cut.iterations, 2U);
  const OracleRun whole = cached_oracle_run(folder_, "problem", Family::kmeans, problem);
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(whole.iterations, 6U);
  EXPECT_FALSE(cached_oracle_run(folder_, "problem", Family::kmeans, problem, two_passes).complete);
}

TEST(ProblemKey, changesWithAllThatDecidesTheRun) {
  const std::vector<float> points = reference_points<float>();
  auto problem = reference_problem<float>(points, {StopRule::Kind::loss, 0.5, 6});
  std::set<std::string> keys = {problem_key(Family::kmeans, problem)};
  const auto expect_new = [&](const char* what, const Problem<float>& other, Family family) {
    EXPECT_TRUE(keys.insert(problem_key(family, other)).second) << what;
  };
  expect_new("family", problem, Family::fcm);
  auto other_points = points;
  other_points[599] += 1.0F / 16.0F;
  auto other = problem;
  other.points = other_points;
  expect_new("a point", other, Family::kmeans);
  other = problem;
  auto start = std::vector<float>(problem.centroids.begin(), problem.centroids.end());
  start[11] = -start[11];
  other.centroids = start;
  expect_new("a centroid", other, Family::kmeans);
  other = problem;
  other.centroids = {};
  other.memberships = start;
  expect_new("memberships", other, Family::kmeans);
  other = problem;
  other.stop.max_iterations = 7;
  expect_new("iterations", other, Family::kmeans);
  other = problem;
  other.stop.threshold = 0.25;
  expect_new("threshold", other, Family::kmeans);
  other = problem;
  other.stop.kind = StopRule::Kind::shift;
  expect_new("rule", other, Family::kmeans);
  other = problem;
  other.n = kN / 2;
  other.d = 2 * kD;
  expect_new("shape", other, Family::kmeans);
  other = problem;
  other.fuzzifier = 3.0;
  expect_new("fuzzifier", other, Family::fcm);
  const std::vector<double> doubles = reference_points<double>();
  const auto in_double = reference_problem<double>(doubles, {StopRule::Kind::loss, 0.5, 6});
  EXPECT_TRUE(keys.insert(problem_key(Family::kmeans, in_double)).second);
  problem.threads = 17;
  EXPECT_FALSE(keys.insert(problem_key(Family::kmeans, problem)).second) << "threads";
  EXPECT_FALSE(keys.insert(problem_key(Family::kmeans, problem, points_key(problem))).second);
}

} // namespace
} // namespace clusterbench

// Problems in words, and the initial states that they ask for.
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "datasets/random_state.hpp"
#include "harness/problem/initial_state.hpp"
#include "harness/problem/problem_spec.hpp"
#include "harness/problem/workload.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using datasets::InputError;

/// The message of the InputError that `action` throws.
template <typename Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "(not refused)";
}

void expect_contains(const std::string& text, const std::string& piece) {
  EXPECT_NE(text.find(piece), std::string::npos) << text;
}

TEST(InitSpec, TextAndBack) {
  for (const char* text : {"first", "rows:1,3,6,8", "rows:0", "random:0", "random:4294967295",
                           "kmeans++:7", "memberships:7", "file:a,b:c.npy"}) {
    EXPECT_EQ(to_string(parse_init(text)), text);
  }
  EXPECT_EQ(parse_init("rows:1,3,6,8").rows, (std::vector<std::size_t>{1, 3, 6, 8}));
}

TEST(InitSpec, RefusesEverythingElse) {
  for (const char* text : {"",
                           "rows",
                           "first:3",
                           "first:",
                           "rows:",
                           "rows:1,",
                           "rows:,1",
                           "rows:1;2",
                           "rows:-1",
                           "rows:1.5",
                           "rows: 1",
                           "rows:99999999999999999999",
                           "random",
                           "random:",
                           "random:x",
                           "random:-1",
                           "random:4294967296",
                           "kmeans++:1.0",
                           "memberships:",
                           "file:",
                           "firsts",
                           "FIRST"}) {
    const std::string message = refusal([&] { parse_init(text); });
    expect_contains(message, "--init");
  }
  expect_contains(refusal([] { parse_init("randon:1"); }), "did you mean random:?");
}

TEST(StopRule, TextAndBack) {
  for (const char* text : {"iterations", "loss:0.1", "loss:0", "labels", "shift:0.0001"}) {
    const StopRule stop = parse_stop(text, 17);
    EXPECT_EQ(to_string(stop), text);
    EXPECT_EQ(stop.max_iterations, 17U);
  }
  // A threshold survives its text bit for bit: children get their jobs as text.
  const double third = 1.0 / 3.0;
  StopRule stop{.kind = StopRule::Kind::shift, .threshold = third, .max_iterations = 1};
  EXPECT_EQ(parse_stop(to_string(stop), 1).threshold, third);
  stop.threshold = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(parse_stop(to_string(stop), 1).threshold, stop.threshold);
}

TEST(StopRule, RefusesEverythingElse) {
  for (const char* text : {"", "loss", "loss:", "loss:-1", "loss:nan", "loss:inf", "loss:1e999",
                           "loss:0x1", "shift:a", "label", "labels:3", "iterations:", "labels:"}) {
    expect_contains(refusal([&] { parse_stop(text, 5); }), "--stop");
  }
  expect_contains(refusal([] { parse_stop("labels", 0); }), "at least 1");
}

TEST(ProblemSpec, FamilyAndPrecision) {
  EXPECT_EQ(parse_family("fcm"), Family::fcm);
  EXPECT_EQ(parse_precision("f64"), Precision::f64);
  expect_contains(refusal([] { parse_family("fmc"); }), "did you mean fcm?");
  expect_contains(refusal([] { parse_precision("double"); }), "--precision");
}

TEST(Workload, TheSameBytesInAnotherShapeOrTypeAreAnotherProblem) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("clusterbench-shapes-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<double> as_doubles(8);
  std::memcpy(as_doubles.data(), values.data(), 64);
  datasets::write_npy<float>(folder / "a.npy", values, {16, 1});
  datasets::write_npy<float>(folder / "b.npy", values, {8, 2});
  datasets::write_npy<double>(folder / "c.npy", as_doubles, {8, 1});
  WorkloadBuilder builder;
  std::set<std::string> hashes;
  for (const auto& [file, d] : {std::pair{"a.npy", 1U}, {"b.npy", 2U}, {"c.npy", 1U}}) {
    ProblemSpec spec;
    spec.data = (folder / file).string();
    spec.k = 2;
    spec.init = parse_init("first");
    const Workload work = builder.build(spec, Precision::f64);
    EXPECT_EQ(work.d, d) << file;
    hashes.insert(work.hash);
  }
  EXPECT_EQ(hashes.size(), 3U);
  std::filesystem::remove_all(folder);
}

TEST(Workload, IsOfOneDatasetWhateverBecomesOfTheFile) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("clusterbench-changes-" + std::to_string(getpid()) + ".npy");
  const auto write = [&](float last) {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, last};
    datasets::write_npy<float>(file, values, {8, 1});
  };
  ProblemSpec spec;
  spec.data = file.string();
  spec.k = 2;
  spec.init = parse_init("first");
  WorkloadBuilder builder;
  write(8);
  const std::string hash = builder.build(spec, Precision::f32).hash;
  write(9);
  EXPECT_EQ(builder.build(spec, Precision::f32).hash, hash); // the points that were read are kept
  expect_contains(refusal([&] { builder.build(spec, Precision::f64); }), // these are to be read now
                  file.string() + ": the file has changed since it was read first");
  write(8);
  EXPECT_NO_THROW(builder.build(spec, Precision::f64));
  std::filesystem::remove(file);
  EXPECT_EQ(builder.build(spec, Precision::f64).hash, builder.build(spec, Precision::f64).hash);
  EXPECT_THROW(WorkloadBuilder().build(spec, Precision::f32), InputError);
}

TEST(ProblemSpec, HashIsOfTheContentAndNotOfTheName) {
  ProblemSpec spec;
  spec.data = "a.npy";
  spec.k = 3;
  spec.init = parse_init("file:x.npy");
  const auto hash = [&](const char* data, const char* init) {
    return problem_hash(spec, data, init, Precision::f32);
  };
  const std::string before = hash("d1", "i1");
  spec.data = "b.npy";
  spec.init = parse_init("file:y.npy");
  EXPECT_EQ(hash("d1", "i1"), before);
  std::set<std::string> hashes{before, hash("d2", "i1"), hash("d1", "i2"),
                               problem_hash(spec, "d1", "i1", Precision::f64)};
  const auto add_after = [&](auto change) {
    ProblemSpec other = spec;
    change(other);
    hashes.insert(problem_hash(other, "d1", "i1", Precision::f32));
  };
  add_after([](ProblemSpec& s) { s.k = 4; });
  add_after([](ProblemSpec& s) { s.take = 7; });
  add_after([](ProblemSpec& s) { s.family = Family::fcm; });
  add_after([](ProblemSpec& s) {
    s.family = Family::fcm;
    s.fuzzifier = 1.5;
  });
  add_after([](ProblemSpec& s) { s.init = parse_init("first"); });
  add_after([](ProblemSpec& s) { s.stop = parse_stop("labels", 300); });
  add_after([](ProblemSpec& s) { s.stop = parse_stop("loss:0.1", 300); });
  add_after([](ProblemSpec& s) { s.stop = parse_stop("loss:0.2", 300); });
  add_after([](ProblemSpec& s) { s.stop.max_iterations = 7; });
  EXPECT_EQ(hashes.size(), 13U);
}

// ---- initial states

constexpr std::size_t kN = 40;
constexpr std::size_t kD = 3;

std::vector<double> some_points() {
  datasets::RandomState random(11);
  std::vector<double> points(kN * kD);
  for (double& value : points) {
    value = random.random_sample();
  }
  return points;
}

ProblemSpec spec_for(const std::string& init, std::size_t k, Family family = Family::kmeans) {
  ProblemSpec spec;
  spec.family = family;
  spec.k = k;
  spec.init = parse_init(init);
  return spec;
}

InitialState<double> state_for(const ProblemSpec& spec, const std::vector<double>& points) {
  return make_initial_state<double>(spec, points, points.size() / kD, kD);
}

void expect_rows_of(const std::vector<double>& points, const InitialState<double>& state) {
  ASSERT_EQ(state.values.size(), state.rows.size() * kD);
  for (std::size_t j = 0; j < state.rows.size(); ++j) {
    for (std::size_t f = 0; f < kD; ++f) {
      EXPECT_EQ(state.values[j * kD + f], points[state.rows[j] * kD + f]);
    }
  }
}

TEST(InitialState, RowsInTheirOrder) {
  const auto points = some_points();
  const auto state = state_for(spec_for("rows:9,2,39", 3), points);
  EXPECT_EQ(state.rows, (std::vector<std::size_t>{9, 2, 39}));
  expect_rows_of(points, state);
  EXPECT_EQ(state_for(spec_for("first", 2), points).rows, (std::vector<std::size_t>{0, 1}));
}

TEST(InitialState, RefusesRowsThatAreNone) {
  const auto points = some_points();
  expect_contains(refusal([&] { state_for(spec_for("rows:1,40", 2), points); }), "row 40");
  expect_contains(refusal([&] { state_for(spec_for("rows:1,1", 2), points); }),
                  "row 1 is repeated");
  expect_contains(refusal([&] { state_for(spec_for("rows:1", 2), points); }), "k is 2");
}

TEST(InitialState, RandomRowsAreDistinctAndSeeded) {
  const auto points = some_points();
  const auto all = state_for(spec_for("random:3", kN), points);
  EXPECT_EQ(std::set(all.rows.begin(), all.rows.end()).size(), kN);
  expect_rows_of(points, all);
  EXPECT_EQ(all.rows, state_for(spec_for("random:3", kN), points).rows);
  EXPECT_NE(all.rows, state_for(spec_for("random:4", kN), points).rows);
}

TEST(InitialState, KmeansPlusPlusPrefersWhatIsFar) {
  // Three far groups: with three clusters, each group gets one in all but very few draws.
  std::vector<double> points;
  for (std::size_t i = 0; i < 60; ++i) {
    for (std::size_t f = 0; f < kD; ++f) {
      points.push_back(1e4 * static_cast<double>(i % 3) + static_cast<double>(i) * 1e-3);
    }
  }
  int all_three = 0;
  for (int seed = 0; seed < 50; ++seed) {
    const auto state = state_for(spec_for("kmeans++:" + std::to_string(seed), 3), points);
    expect_rows_of(points, state);
    all_three += std::set{state.rows[0] % 3, state.rows[1] % 3, state.rows[2] % 3}.size() == 3;
  }
  EXPECT_EQ(all_three, 50);
}

TEST(InitialState, KmeansPlusPlusNeverTakesARowTwice) {
  const std::vector<double> same(10 * kD, 1.0); // every distance is 0
  const auto state = state_for(spec_for("kmeans++:1", 10), same);
  EXPECT_EQ(std::set(state.rows.begin(), state.rows.end()).size(), 10U);
}

TEST(InitialState, MembershipsSumToOne) {
  const auto points = some_points();
  const auto state = state_for(spec_for("memberships:5", 4, Family::fcm), points);
  EXPECT_TRUE(state.is_memberships);
  ASSERT_EQ(state.values.size(), kN * 4);
  for (std::size_t i = 0; i < kN; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_GT(state.values[i * 4 + j], 0.0);
      sum += state.values[i * 4 + j];
    }
    EXPECT_NEAR(sum, 1.0, 1e-14);
  }
  expect_contains(refusal([&] { state_for(spec_for("memberships:5", 4), points); }), "k-means");
}

class InitialFile : public ::testing::Test {
protected:
  InitialFile() {
    std::string name =
        (std::filesystem::temp_directory_path() / "clusterbench-init-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~InitialFile() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::vector<double>& values, const std::vector<std::size_t>& shape) {
    datasets::write_npy<double>(folder_ / "x.npy", values, shape);
    return "file:" + (folder_ / "x.npy").string();
  }
  std::filesystem::path folder_;
};

TEST_F(InitialFile, CentroidsAndMemberships) {
  const auto points = some_points();
  const auto centroids = state_for(spec_for(write({1, 2, 3, 4, 5, 6}, {2, 3}), 2), points);
  EXPECT_FALSE(centroids.is_memberships);
  EXPECT_EQ(centroids.values, (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(centroids.rows.empty());
  const std::vector<double> halves(kN * 2, 0.5);
  const auto memberships = state_for(spec_for(write(halves, {kN, 2}), 2, Family::fcm), points);
  EXPECT_TRUE(memberships.is_memberships);
  EXPECT_EQ(memberships.values, halves);
}

TEST_F(InitialFile, RefusesAnotherShape) {
  const auto points = some_points();
  const std::string file = write({1, 2, 3, 4, 5, 6}, {3, 2});
  expect_contains(refusal([&] { state_for(spec_for(file, 2), points); }), "[3, 2]");
  expect_contains(refusal([&] { state_for(spec_for(file, 2), points); }), "[2, 3]");
  expect_contains(refusal([&] { state_for(spec_for(file, 2, Family::fcm), points); }),
                  "memberships [40, 2]");
  const std::string halves = write(std::vector<double>(kN * 2, 0.5), {kN, 2});
  expect_contains(refusal([&] { state_for(spec_for(halves, 2), points); }), "[40, 2]");
}

} // namespace
} // namespace clusterbench

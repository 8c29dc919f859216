// The weights of points: which files hold some, and in which words others are refused.
#include "harness/problem/initial_state.hpp"
#include "harness/problem/point_weights.hpp"
#include "harness/problem/workload.hpp"
#include "tests/unit/reader_files.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

using datasets::InputError;
using datasets::npy;
using datasets::raw;
using datasets::refusal;
using namespace std::string_literals;

class PointWeightsTest : public datasets::Readers {
protected:
  template <typename T = double>
  PointWeights<T> read(const std::string& name, std::string_view content, std::size_t rows,
                       std::size_t taken = 0, std::vector<T> points = {1, 2}) const {
    return {file(name, content).string(), rows, taken == 0 ? rows : taken, points};
  }
};

TEST_F(PointWeightsTest, AnyFormThatPointsHave) {
  const std::vector<double> expected = {1, 0, 2.5};
  const std::string shape = "{'descr': '<f8', 'fortran_order': False, 'shape': ";
  const std::string data = raw<double>({1, 0, 2.5});
  EXPECT_EQ(read("flat.npy", npy(1, shape + "(3,), }", data), 3).values, expected);
  EXPECT_EQ(read("column.npy", npy(1, shape + "(3, 1), }", data), 3).values, expected);
  EXPECT_EQ(read("row.npy", npy(1, shape + "(1, 3), }", data), 3).values, expected);
  EXPECT_EQ(read("column.csv", "1\n0\n2.5\n", 3).values, expected);
  EXPECT_EQ(read("header.csv", "weight\n1\n0\n2.5\n", 3).values, expected);
  EXPECT_EQ(read("row.csv", "1,0,2.5\n", 3).values, expected);
  EXPECT_EQ(read("a.fbin", raw<std::int32_t>({3, 1}) + raw<float>({1, 0, 2.5}), 3).values,
            expected);
  EXPECT_EQ(read("a.u8bin", raw<std::int32_t>({3, 1}) + "\1\0\2"s, 3).values,
            (std::vector<double>{1, 0, 2}));
}

TEST_F(PointWeightsTest, OnlyThoseOfTheTakenRowsAreKept) {
  const auto weights = read("a.csv", "0\n4\n2\n", 3, 2);
  EXPECT_EQ(weights.values, (std::vector<double>{0, 4}));
  // All of the file says which weights they are.
  EXPECT_NE(weights.sha256, read("b.csv", "0\n4\n3\n", 3, 2).sha256);
}

TEST_F(PointWeightsTest, AreRoundedToThePrecision) {
  EXPECT_EQ(read<float>("a.csv", "0.1\n1e-60\n", 2).values, (std::vector<float>{0.1F, 0.0F}));
}

#define EXPECT_NO_WEIGHTS(text, rows, part)                                                        \
  EXPECT_NE(refusal([&] { read<float>("w.csv", text, rows); }).find(part), std::string::npos)      \
      << refusal([&] { read<float>("w.csv", text, rows); })

TEST_F(PointWeightsTest, WhatIsNoneIsNamedWithItsPlace) {
  EXPECT_NO_WEIGHTS("1\n2\n", 3, "w.csv: 2 weights, but the data have 3 rows");
  EXPECT_NO_WEIGHTS("1\n2\n3\n4\n", 3, "w.csv: 4 weights, but the data have 3 rows");
  EXPECT_NO_WEIGHTS("1,2\n2,3\n3,4\n", 3, "w.csv: 3 rows of 2 numbers; one column or one row");
  EXPECT_NO_WEIGHTS("w\n1\n\n-2\n3\n", 3, "w.csv: line 4: -2 is negative");
  EXPECT_NO_WEIGHTS("1\n2\nnan\n", 3, "w.csv: line 3: nan is no weight");
  EXPECT_NO_WEIGHTS("1\ninf\n3\n", 3, "w.csv: line 2: inf is no weight");
  EXPECT_NO_WEIGHTS("1,2,-inf\n", 3, "w.csv: line 1, column 2 (from 0): -inf is no weight");
  EXPECT_NO_WEIGHTS("1\n2\nthree\n", 3, "w.csv: line 3, column 1: 'three' is not a number");
  EXPECT_NO_WEIGHTS("0\n0\n0\n", 3, "w.csv: all 3 weights are 0");
  EXPECT_NO_WEIGHTS("1e-60\n0\n0\n", 3, "w.csv: all 3 weights are 0 in float32");
  EXPECT_NO_WEIGHTS("1\n1e39\n3\n", 3,
                    "line 2: 1e+39 is more than float32 holds; use --precision f64");
  EXPECT_NO_WEIGHTS("3e38\n3e38\n3\n", 3, "the weights add up to 6e+38: sums of weighted points");
  EXPECT_NO_WEIGHTS("1e-20\n0\n1e-21\n", 3, "all weights are too small: the largest is 1e-20");
  const std::string bytes =
      npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", raw<float>({1, -2, 3}));
  EXPECT_NE(refusal([&] { read("w.npy", bytes, 3); }).find("w.npy: row 1 (from 0): -2 is negative"),
            std::string::npos);
  EXPECT_NE(refusal([&] { read("w.txt", "1\n", 1); }).find("w.txt: the extension must be .npy"),
            std::string::npos);
}

TEST_F(PointWeightsTest, SumsWithThePointsAreToFit) {
  EXPECT_NO_THROW(read<float>("a.csv", "1e20\n1e20\n", 2, 0, {1e15F, -1}));
  EXPECT_THROW(read<float>("a.csv", "1e30\n1e30\n", 2, 0, {1e15F, -1}), InputError);
  EXPECT_THROW(read<float>("a.csv", "1e30\n1e30\n", 2, 0, {1, -1e15F}), InputError);
  EXPECT_NO_THROW(read<double>("a.csv", "1e30\n1e30\n", 2, 0, {1e15, -1}));
  EXPECT_THROW(read<double>("a.csv", "1.7e308\n1.7e308\n", 2), InputError);
}

// ---- where they go

TEST_F(PointWeightsTest, OtherWeightsAreOtherWork) {
  const std::string data = file("p.csv", "0\n1\n5\n6\n").string();
  const auto built = [&](const std::string& weights, WorkloadBuilder& builder) {
    ProblemSpec spec;
    spec.data = data;
    spec.weights = weights;
    spec.k = 2;
    spec.stop = parse_stop("iterations", 3);
    return builder.build(spec, Precision::f64);
  };
  WorkloadBuilder builder;
  const std::string one = file("one.csv", "1\n2\n3\n4\n").string();
  const std::string same = file("same.csv", "w\n1.0\n2.0\n3.0\n4.0\n").string();
  const std::string other = file("other.csv", "1\n2\n3\n5\n").string();
  const Workload without = built("", builder), with = built(one, builder);
  EXPECT_EQ(without.points->weights.bytes(), 0U);
  EXPECT_TRUE(without.problem<double>(1).weights.empty());
  const Problem<double> problem = with.problem<double>(1);
  EXPECT_EQ((std::vector<double>{problem.weights.begin(), problem.weights.end()}),
            (std::vector<double>{1, 2, 3, 4}));
  EXPECT_TRUE(problem.shape().weighted);
  EXPECT_EQ(with.points->sha256, without.points->sha256);
  EXPECT_EQ(built(same, builder).hash, with.hash);
  EXPECT_EQ(built(same, builder).points->key, with.points->key);
  const Workload third = built(other, builder);
  EXPECT_EQ((std::set{without.hash, with.hash, third.hash}).size(), 3U);
  EXPECT_EQ((std::set{without.points->key, with.points->key, third.points->key}).size(), 3U);
  file("one.csv", "1\n2\n3\n9\n");
  EXPECT_EQ(built(one, builder).hash, with.hash); // kept; what a file was at first counts
}

TEST_F(PointWeightsTest, NoneOfFuzzyCMeans) {
  ProblemSpec spec;
  spec.family = Family::fcm;
  spec.data = file("p.csv", "0\n1\n5\n6\n").string();
  spec.weights = file("w.csv", "1\n2\n3\n4\n").string();
  spec.k = 2;
  EXPECT_NE(refusal([&] {
              WorkloadBuilder().build(spec, Precision::f64);
            }).find("no variant of fuzzy c-means takes weights yet"),
            std::string::npos);
}

TEST(AdhocName, NamesTheWeights) {
  ProblemSpec spec;
  spec.data = "p.csv";
  EXPECT_EQ(adhoc_name(spec), "p.csv");
  EXPECT_FALSE(to_json(spec).contains("weights"));
  spec.weights = "w.npy";
  EXPECT_EQ(adhoc_name(spec), "p.csv, weights w.npy");
  EXPECT_EQ(to_json(spec).at("weights"), "w.npy");
}

// ---- k-means++

TEST(WeightedKmeansPlusPlus, TakesNoRowWithoutWeightWhileOthersAreLeft) {
  std::vector<double> points, weights;
  for (int i = 0; i < 60; ++i) {
    points.push_back(i * i);
    weights.push_back(i % 6 == 0 ? 1.0 : 0.0);
  }
  ProblemSpec spec;
  spec.k = 10;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    spec.init = parse_init("kmeans++:" + std::to_string(seed));
    const auto state = make_initial_state<double>(spec, points, 60, 1, weights);
    EXPECT_EQ(std::ranges::count_if(state.rows, [](std::size_t row) { return row % 6 == 0; }), 10);
    EXPECT_EQ((std::set(state.rows.begin(), state.rows.end())).size(), 10U);
  }
  spec.k = 12; // more than rows with weight
  const auto state = make_initial_state<double>(spec, points, 60, 1, weights);
  EXPECT_EQ((std::set(state.rows.begin(), state.rows.end())).size(), 12U);
}

TEST(WeightedKmeansPlusPlus, FollowsTheWeights) {
  // Two places; the second has 99 parts of 100 of the weight.
  std::vector<double> points = {0.0, 1.0}, weights = {1.0, 99.0};
  ProblemSpec spec;
  spec.k = 1;
  int second = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    spec.init = parse_init("kmeans++:" + std::to_string(seed));
    second += make_initial_state<double>(spec, points, 2, 1, weights).rows[0] == 1 ? 1 : 0;
  }
  EXPECT_GT(second, 285);
  EXPECT_LT(second, 300);
}

} // namespace
} // namespace clusterbench

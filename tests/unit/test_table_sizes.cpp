// What a table's `quick` changes, in problems and in rows, and that points are read once where a
// campaign comes back to them.
#include "harness/problem/table.hpp"
#include "harness/problem/workload.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

class TableSizes : public testing::Test {
protected:
  TableSizes() {
    fs::create_directories(folder_);
    setenv("CLUSTERBENCH_TABLES", folder_.c_str(), 1);
  }
  ~TableSizes() override {
    unsetenv("CLUSTERBENCH_TABLES");
    fs::remove_all(folder_);
  }

  // The table's cells as "problem variant precision".
  std::vector<std::string> cells(bool quick) {
    std::ofstream(folder_ / "small.json") << R"({
      "schema": 1, "name": "small", "title": "", "source": "",
      "problems": [
        {"id": "a", "data": "mixture:100,2,2,1,1", "k": 2, "init": "first", "stop": "iterations",
         "max_iterations": 9, "quick": {"max_iterations": 3}},
        {"id": "b", "data": "mixture:100,2,2,1,1", "k": 4, "init": "first", "stop": "iterations",
         "max_iterations": 9}],
      "rows": [
        {"variant": "kmeans_serial", "precisions": ["f32", "f64"], "problems": ["a", "b"],
         "quick": {"precisions": ["f64"]}},
        {"variant": "kmeans_openmp", "precisions": ["f32"], "problems": ["a", "b"],
         "quick": {"problems": []}},
        {"variant": "kmeans_eigen_gemm", "precisions": ["f32"], "problems": ["b"]}]})";
    table_ = load_table("small", quick);
    std::vector<std::string> names;
    for (const CellSpec& cell : table_.cells) {
      names.push_back(cell.problem_id + " " + cell.variant + " " +
                      std::string(to_string(cell.precision)));
    }
    return names;
  }

  Table table_;

private:
  fs::path folder_ = fs::path(testing::TempDir()) / ("tables" + std::to_string(getpid()));
};

TEST_F(TableSizes, FullSizesHaveEveryCell) {
  EXPECT_EQ(cells(false), (std::vector<std::string>{"a kmeans_serial f32", "a kmeans_serial f64",
                                                    "b kmeans_serial f32", "b kmeans_serial f64",
                                                    "a kmeans_openmp f32", "b kmeans_openmp f32",
                                                    "b kmeans_eigen_gemm f32"}));
  EXPECT_EQ(table_.problems.front().second.stop.max_iterations, 9u);
}

TEST_F(TableSizes, QuickReplacesKeysOfProblemsAndOfRows) {
  EXPECT_EQ(cells(true), (std::vector<std::string>{"a kmeans_serial f64", "b kmeans_serial f64",
                                                   "b kmeans_eigen_gemm f32"}));
  EXPECT_EQ(table_.problems.front().second.stop.max_iterations, 3u);
  EXPECT_EQ(table_.problems.back().second.stop.max_iterations, 9u);
}

TEST(WorkloadBuilder, SmallSetsOfPointsStayReadyHoweverManyThereAre) {
  ProblemSpec spec;
  spec.k = 2;
  spec.stop.max_iterations = 1;
  WorkloadBuilder builder;
  const auto points = [&](const char* data, Precision precision) {
    spec.data = data;
    return builder.build(spec, precision).points.get();
  };
  const auto* const first = points("mixture:100,2,2,1,1", Precision::f32);
  EXPECT_NE(points("mixture:100,2,2,1,1", Precision::f64), first);
  for (const char* other : {"mixture:100,2,2,1,2", "mixture:100,2,2,1,3", "mixture:100,2,2,1,4"}) {
    EXPECT_NE(points(other, Precision::f32), first);
  }
  EXPECT_EQ(points("mixture:100,2,2,1,1", Precision::f32), first);
}

} // namespace
} // namespace clusterbench

// What `clusterbench judge` says of a variant: times with the digits that they are worth, and why
// no model bound stands beside them.
#include "harness/ledger/limits.hpp"
#include "harness/report/digits.hpp"
#include "harness/report/submission/submission_text.hpp"
#include "harness/report/text_table.hpp"
#include "tests/unit/ledger_rows.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;

const std::string kTable = "judge";

ProblemSpec problem() {
  ProblemSpec spec;
  spec.data = "some-data";
  spec.k = 4;
  spec.stop.max_iterations = 10;
  return spec;
}

/// The rates of two threads, of a probe that had this share of its processors.
json limits(double share) {
  const json sizes = {{{"bytes", 1024}, {"gbs", 1.0}}, {{"bytes", 1 << 30}, {"gbs", 1.0}}};
  return {{"cpu",
           {{{"threads", 2},
             {"cpu_share", share},
             {"read_gbs", 1.0},
             {"read_by_size", sizes},
             {"fma_f32_gflops", 1.0},
             {"fma_f64_gflops", 1.0}}}},
          {"gpu", nullptr}};
}

/// Of kmeans_mine beside kmeans_other, which takes twice as long.
SubmissionReport report_of(const std::vector<double>& samples, const json& limits,
                           const std::vector<std::string>& words = {}) {
  json header = made_up::header();
  header["limits"] = limits;
  header["command_line"] = words;
  std::vector<json> lines;
  for (const auto& [variant, factor] : {std::pair{"kmeans_mine", 1.0}, {"kmeans_other", 2.0}}) {
    std::vector<double> longer = samples;
    for (double& sample : longer) {
      sample *= factor;
    }
    json& line =
        lines.emplace_back(made_up::row(kTable, variant, "ok", made_up::problem(problem(), "p")));
    made_up::put_times(line, longer, 10);
    add_derived_figures(line, limits);
  }
  Table table;
  table.name = kTable;
  table.problems.emplace_back("p", problem());
  for (const char* variant : {"kmeans_mine", "kmeans_other"}) {
    table.cells.push_back({kTable, "p", problem(), Precision::f32, variant});
  }
  const std::vector<Row> rows = made_up::rows_of(lines, header);
  const TableReport report = make_table_report(table, measurements_of(rows, kTable), std::nullopt);
  return make_submission_reports(report, {"kmeans_mine"}, rows).at(0);
}

// Samples of runs of ten passes within a per cent of 10.34 ms, and within a half of it.
const std::vector<double> kNarrow = {10.31, 10.32, 10.33, 10.34, 10.34, 10.35, 10.36, 10.37, 10.38};
const std::vector<double> kWide = {6.0, 7.0, 8.0, 9.0, 10.34, 11.0, 12.0, 13.0, 14.0};

TEST(SubmissionReport, TimesHaveTheDigitsOfTheirInterval) {
  const std::string narrow = submission_text(report_of(kNarrow, limits(1.0)));
  EXPECT_NE(narrow.find(" 1.034 [1.032, 1.037]"), std::string::npos) << narrow;
  const std::string wide = submission_text(report_of(kWide, limits(1.0)));
  EXPECT_NE(wide.find(" 1.0 [0.7, 1.3]"), std::string::npos) << wide;
  EXPECT_EQ(wide.find("1.034"), std::string::npos) << wide;
  EXPECT_NE(wide.find(" 2.1\n"), std::string::npos) << wide; // beside it
  // For programs nothing is rounded.
  EXPECT_DOUBLE_EQ(
      to_json(report_of(kWide, limits(1.0))).at("cells").at(0).at("per_iteration").at("ms"), 1.034);
}

TEST(SubmissionReport, PercentagesHaveTwoDigits) {
  // 100 points of 2 features, 4 clusters: 1600 operations at 1 GFLOP/s are 0.0016 ms.
  const SubmissionReport report = report_of(kNarrow, limits(1.0));
  EXPECT_EQ(report.no_bound, "");
  const std::string text = submission_text(report);
  EXPECT_NE(text.find(" 0.15  FMA rate"), std::string::npos) << text;
  EXPECT_EQ(text.find("model bound"), std::string::npos) << text;
  EXPECT_FALSE(to_json(report).contains("no_model_bound"));
}

TEST(SubmissionReport, SaysThatComparisonsBind) {
  json slow = limits(1.0);
  slow["cpu"][0]["compare_f32_gpairs"] = 0.0003; // 3 comparisons for each of 100 points: 1 ms
  const std::string text = submission_text(report_of(kNarrow, slow));
  EXPECT_NE(text.find("comparison rate"), std::string::npos) << text;
  EXPECT_NE(text.find("bound by its comparisons"), std::string::npos) << text;
}

TEST(SubmissionReport, WithoutAModelBoundItSaysWhy) {
  const auto expect = [](const SubmissionReport& report, const std::string& sentence) {
    EXPECT_EQ(report.no_bound, sentence);
    EXPECT_EQ(to_json(report).at("no_model_bound"), sentence);
    const std::string text = submission_text(report);
    EXPECT_EQ(text.find("  %"), std::string::npos) << text; // no column that is empty
    EXPECT_NE(text.find(wrapped(sentence, "  ")), std::string::npos) << text;
  };
  expect(report_of(kNarrow, json::object(), {"clusterbench", "judge", "x.so", "--no-probe"}),
         "No percentage of the model bound is known: --no-probe was given.");
  expect(report_of(kNarrow, json::object(), {"clusterbench", "judge", "x.so"}),
         "No percentage of the model bound is known: the probe of the machine's rates failed.");
  expect(report_of(kNarrow, limits(0.31)),
         "No percentage of the model bound is known: other programs disturbed the probe of the "
         "machine's "
         "rates, which had 31 % of its processors' time and needs 50 %.");
}

TEST(Digits, ATimeAndItsIntervalEndAtTheSamePlace) {
  EXPECT_EQ(ms_text(1.0342, {1.0213, 1.0469}, false), "1.03 [1.02, 1.05]");
  EXPECT_EQ(ms_text(1.0342, {1.0341, 1.0343}, false), "1.034 [1.034, 1.034]");
  EXPECT_EQ(ms_text(12345.6, {11789.0, 12944.0}, false), "12300 [11800, 12900]");
  // rounded, it has another leading digit
  EXPECT_EQ(ms_text(9.98, {9.3, 10.6}, true), "10 (9 .. 11)");
  EXPECT_EQ(ms_text(0.00512, {0.0004, 0.0113}, true), "0.0051 (0.0004 .. 0.0113)");
  EXPECT_EQ(ms_text(0.0000512, {0.00004, 0.00006}, true), "5.1e-05 (4e-05 .. 6e-05)");
  EXPECT_EQ(ms_text(3.14159, {3.14159, 3.14159}, true), "3.14 (3.14 .. 3.14)"); // one sample
}

} // namespace
} // namespace clusterbench

// Time to quality and performance profiles, on figures worked out by hand.
#include "datasets/errors.hpp"
#include "harness/report/quality/plan.hpp"
#include "harness/report/quality/quality_json.hpp"
#include "harness/report/quality/quality_text.hpp"
#include "tests/unit/ledger_rows.hpp"

#include <gtest/gtest.h>

namespace clusterbench {
namespace {

using nlohmann::json;

/// A run of so many passes from its own start, 1 ms each, in a whole answer that takes 2 ms more.
/// `entering` is the trace as the ledger has it: the inertia of the centroids that enter each pass.
json row(const std::string& variant, const std::string& init, std::vector<double> entering,
         double final_inertia, double ms_per_pass = 1.0) {
  const std::size_t passes = entering.size();
  const json words = {{"id", "p " + init},
                      {"family", "kmeans"},
                      {"data", "some"},
                      {"data_sha256", "abc"},
                      {"hash", "def"},
                      {"n", 10},
                      {"d", 2},
                      {"k", 3},
                      {"stop", "labels"},
                      {"max_iterations", 9},
                      {"init", init}};
  json line = made_up::row(kQualityTable, variant, "ok", words);
  made_up::put_times(line, {ms_per_pass * static_cast<double>(passes), 77.0, 88.0}, passes);
  for (json& answer : line["whole"]) { // from other starts, with other numbers of passes
    answer["ms"] = 79.0;
    answer["run_ms"] = 77.0;
  }
  line.update({{"trace", {{"inertia", entering}, {"loss", entering}}},
               {"verification", {{{"objective", 0.5}}, {{"objective", final_inertia}}}}});
  return line;
}

json failed(const std::string& variant, const std::string& init, const std::string& status) {
  json line = row(variant, init, {9.0}, 1.0);
  line["status"] = status;
  line["message"] = "why";
  return line;
}

QualityReport report_of(const std::vector<json>& rows, const std::vector<GivenBest>& given = {}) {
  const Measurements measurements = measurements_of(made_up::rows_of(rows), kQualityTable);
  return make_quality_report(make_attempts(measurements, {}), measurements.machines, given);
}

const StartsSummary& summary_of(const QualityReport& report, const std::string& variant,
                                double within, const std::string& init = "random") {
  for (const StartsSummary& summary : report.summaries) {
    if (report.attempts.solvers[summary.solver].variant == variant && summary.within == within &&
        summary.init == init) {
      return summary;
    }
  }
  throw std::runtime_error("no such summary");
}

TEST(TimeToQuality, CountsThePassThatReturnsTheCentroids) {
  Attempt attempt;
  attempt.status = "ok";
  attempt.around_ms = 2.0;
  attempt.run_ms = 8.0; // 4 passes
  attempt.inertia = {200.0, 102.0, 100.5, 100.0};
  EXPECT_EQ(time_to_quality(attempt, 101.0).passes, 3u);
  EXPECT_EQ(time_to_quality(attempt, 101.0).ms, 2.0 + 3 * 2.0);
  EXPECT_EQ(time_to_quality(attempt, 500.0).ms, 2.0 + 2.0); // never less than one pass
  EXPECT_EQ(time_to_quality(attempt, 100.0).passes, 4u);
  EXPECT_EQ(time_to_quality(attempt, 99.0).passes, 0u);
  EXPECT_EQ(time_to_quality(attempt, 99.0).ms, kNever);
  EXPECT_EQ(time_to_quality(attempt, std::nan("")).ms, kNever);
  attempt.inertia = {std::nan(""), std::nan(""), std::nan(""), 100.0}; // only the end is known
  EXPECT_EQ(time_to_quality(attempt, 500.0).passes, 4u);
  attempt.status = "wrong";
  EXPECT_EQ(time_to_quality(attempt, 500.0).ms, kNever);
}

TEST(TimeToQuality, RestartsAreAveragedOverCyclicOrders) {
  // Orders: 1 2 3: 3. 2 3 1: 10 + 20 + 3. 3 1 2: 20 + 3.
  const std::vector<StartCost> one = {{7.0, 3.0}, {10.0, kNever}, {20.0, kNever}};
  EXPECT_DOUBLE_EQ(time_with_restarts(one), (3.0 + 33.0 + 23.0) / 3.0);
  EXPECT_DOUBLE_EQ(time_with_restarts(std::vector<StartCost>{{7.0, 3.0}, {9.0, 5.0}}), 4.0);
  EXPECT_EQ(time_with_restarts(std::vector<StartCost>{{7.0, kNever}, {9.0, kNever}}), kNever);
  // A crashed start has no time, and some order begins with it.
  EXPECT_EQ(time_with_restarts(std::vector<StartCost>{{7.0, 3.0}, {}}), kNever);
  EXPECT_THROW(time_with_restarts({}), std::invalid_argument);
}

TEST(TimeToQuality, MedianTakesNever) {
  EXPECT_EQ(median_or_never({kNever, 1.0, 3.0}), 3.0);
  EXPECT_EQ(median_or_never({2.0, 1.0}), 1.5);
  EXPECT_EQ(median_or_never({kNever, 1.0}), kNever);
  EXPECT_THROW(median_or_never({}), std::invalid_argument);
}

TEST(PerformanceProfile, IsDolanAndMores) {
  // Instance by instance: ratios 1 and 2; 3 and 1; 1 and never; never and never.
  const Profile profile =
      performance_profile({{5.0, 10.0}, {9.0, 3.0}, {4.0, kNever}, {kNever, kNever}});
  EXPECT_EQ(profile.instances, 4u);
  EXPECT_EQ(profile.unsolved, 1u);
  EXPECT_EQ(profile.ratios, (std::vector<std::vector<double>>{{1.0, 1.0, 3.0}, {1.0, 2.0}}));
  EXPECT_EQ(profile.rho(0, 1.0), 0.5); // the unsolved instance counts
  EXPECT_EQ(profile.rho(0, 2.9), 0.5);
  EXPECT_EQ(profile.rho(0, 3.0), 0.75);
  EXPECT_EQ(profile.rho(0, kNever), 0.75);
  EXPECT_EQ(profile.rho(1, 1.0), 0.25);
  EXPECT_EQ(profile.rho(1, 2.0), 0.5);
  EXPECT_THROW(performance_profile({{1.0, 2.0}, {1.0}}), std::invalid_argument);
  EXPECT_THROW(performance_profile({{1.0, 0.0}}), std::invalid_argument);
}

TEST(QualityReport, IsMadeFromALedger) {
  // Both variants take the same passes from random:1 (100 after 3 of 4) and miss from random:2;
  // `slow` takes twice as long for a pass.
  std::vector<json> rows;
  for (const auto& [variant, ms] : {std::pair("fast", 1.0), std::pair("slow", 2.0)}) {
    rows.push_back(row(variant, "random:1", {900.0, 300.0, 100.5, 100.0}, 100.0, ms));
    rows.push_back(row(variant, "random:2", {800.0, 150.0}, 140.0, ms));
  }
  const QualityReport report = report_of(rows);
  ASSERT_EQ(report.best.size(), 1u);
  EXPECT_EQ(report.best[0].inertia, 100.0);
  EXPECT_EQ(report.attempts.attempts[*report.best[0].attempt].start.text, "random:1");
  const StartsSummary& one_percent = summary_of(report, "fast", 0.01);
  EXPECT_EQ(one_percent.starts, 2u);
  EXPECT_EQ(one_percent.reached, 1u);
  EXPECT_EQ(one_percent.median_ms, kNever);
  // 100.5 after two passes: 2 + 2 ms; the failed run takes 2 + 2 ms.
  EXPECT_DOUBLE_EQ(one_percent.restarts_ms, (4.0 + (4.0 + 4.0)) / 2.0);
  EXPECT_DOUBLE_EQ(summary_of(report, "fast", 0.001).restarts_ms, (5.0 + (4.0 + 5.0)) / 2.0);
  EXPECT_DOUBLE_EQ(summary_of(report, "slow", 0.01).restarts_ms, (6.0 + (6.0 + 6.0)) / 2.0);
  ASSERT_EQ(report.profiles.size(), 4u);
  const Profile& one_start = report.profiles[0].profile;
  EXPECT_EQ(report.profiles[0].measure, QualityMeasure::one_start);
  EXPECT_EQ(one_start.instances, 2u);
  EXPECT_EQ(one_start.unsolved, 1u);
  EXPECT_EQ(one_start.ratios, (std::vector<std::vector<double>>{{1.0}, {1.5}}));
  EXPECT_EQ(report.profiles[2].measure, QualityMeasure::restarts);
  EXPECT_EQ(report.profiles[2].profile.instances, 1u);
  EXPECT_EQ(report.exit_code, ExitCode::ok);
  const std::string text = quality_text(report, TextStyle::terminal);
  EXPECT_NE(text.find("1 of 2"), std::string::npos) << text;
  EXPECT_NE(text.find("by fast f32 from random:1"), std::string::npos) << text;
}

TEST(QualityReport, WrongAndCrashedRunsNeverCountAndAreListed) {
  json wrong = row("wrong", "random:1", {10.0, 1.0}, 1.0); // would be the best known
  wrong["status"] = "wrong";
  wrong["message"] = "labels";
  const QualityReport report = report_of({row("good", "random:1", {200.0}, 100.0), wrong,
                                          failed("crashed", "random:1", "crashed"),
                                          row("good", "random:2", {200.0}, 100.0)});
  EXPECT_EQ(report.best[0].inertia, 100.0);
  EXPECT_EQ(summary_of(report, "wrong", 0.01).reached, 0u);
  EXPECT_EQ(summary_of(report, "crashed", 0.01).restarts_ms, kNever);
  EXPECT_EQ(report.profiles[0].profile.rho(1, kNever), 1.0); // crashed, good, wrong
  EXPECT_EQ(report.exit_code, ExitCode::wrong_result);
  const std::string text = quality_text(report, TextStyle::markdown);
  for (const char* note : {"wrong f32: wrong, counts as never (1 start): labels",
                           "crashed f32: crashed, counts as never (1 start): why",
                           "crashed f32: not run, counts as never (1 start)"}) {
    EXPECT_NE(text.find(note), std::string::npos) << note << "\n" << text;
  }
}

TEST(QualityReport, OneWithoutRecordedPassesGetsThereAtItsEnd) {
  json silent = row("silent", "random:1", {200.0, 100.0, 100.0, 100.0}, 100.0);
  silent["recorded_passes"] = 0;
  const QualityReport report =
      report_of({row("told", "random:1", {200.0, 100.0, 100.0, 100.0}, 100.0), silent});
  EXPECT_EQ(summary_of(report, "told", 0.01).median_passes, 1.0);
  EXPECT_EQ(summary_of(report, "silent", 0.01).median_passes, 4.0);
  EXPECT_EQ(summary_of(report, "silent", 0.01).median_ms, 6.0);
  EXPECT_NE(
      quality_text(report, TextStyle::terminal).find("silent f32: its passes are not recorded"),
      std::string::npos);
}

TEST(QualityReport, AGivenInertiaCountsWhereItIsLess) {
  const std::vector<json> rows = {row("a", "random:1", {200.0}, 100.0)};
  const QualityReport less = report_of(rows, {{"some", 3, 90.0}});
  EXPECT_EQ(less.best[0].inertia, 90.0);
  EXPECT_FALSE(less.best[0].attempt);
  EXPECT_EQ(summary_of(less, "a", 0.01).reached, 0u);
  EXPECT_EQ(less.profiles[0].profile.unsolved, 1u);
  EXPECT_EQ(report_of(rows, {{"some", 3, 110.0}}).best[0].inertia, 100.0);
  EXPECT_THROW(report_of(rows, {{"some", 4, 90.0}}), datasets::InputError);
  EXPECT_THROW(report_of(rows, {{"other", 3, 90.0}}), datasets::InputError);
}

TEST(QualityReport, AGivenInertiaCountsForOneNumberOfRowsOnly) {
  std::vector<json> rows = {row("a", "random:1", {200.0}, 100.0)};
  json fewer = row("a", "random:1", {20.0}, 10.0);
  fewer["name"] = "quality/fewer/a/f32";
  fewer["problem"].update({{"id", "fewer"}, {"n", 5}, {"take", 5}, {"data_sha256", "abd"}});
  rows.push_back(fewer);
  EXPECT_THROW(report_of(rows, {{"some", 3, 9.0}}), datasets::InputError);
  EXPECT_THROW(report_of(rows, {{"some", 3, 9.0, 7}}), datasets::InputError);
  const QualityReport report = report_of(rows, {{"some", 3, 9.0, 5}});
  EXPECT_EQ(report.best[0].inertia, 9.0); // of 5 rows
  EXPECT_EQ(report.best[1].inertia, 100.0);
}

TEST(QualityReport, NumbersOfRanksAreOtherSolvers) {
  std::vector<json> rows;
  for (const int ranks : {2, 4}) {
    rows.push_back(row("mpi", "random:1", {200.0, 100.0}, 100.0));
    rows.back().update({{"ranks", ranks}, {"threads", 4}});
  }
  const QualityReport report = report_of(rows);
  ASSERT_EQ(report.attempts.solvers.size(), 2u);
  const std::string text = quality_text(report, TextStyle::terminal);
  EXPECT_NE(text.find("mpi f32, 2 ranks"), std::string::npos) << text;
  EXPECT_EQ(to_json(report)["solvers"][1]["ranks"], 4);
}

TEST(QualityReport, LeavesOutWhatCannotBeJudged) {
  json fuzzy = row("f", "random:1", {200.0}, 100.0);
  fuzzy["problem"]["family"] = "fcm";
  json refused = failed("r", "random:1", "refused");
  json free = row("u", "random:1", {200.0}, 100.0);
  free["unsandboxed"] = true;
  json steps_only = row("a", "random:1", {200.0}, 100.0);
  steps_only["problem"]["k"] = 4;
  steps_only["problem"]["id"] = "q";
  steps_only["name"] = "quality/q/a/f32";
  steps_only["oracle"] = "single steps only";
  steps_only.erase("trace");
  const QualityReport report =
      report_of({row("a", "random:1", {200.0}, 100.0), fuzzy, refused, free, steps_only});
  EXPECT_EQ(report.attempts.solvers.size(), 1u);
  EXPECT_FALSE(report.best[1].inertia);
  EXPECT_EQ(report.profiles[0].profile.instances, 1u);
  const std::string text = quality_text(report, TextStyle::terminal);
  for (const char* note : {"1 cells of fuzzy c-means", "r f32 is left out: refused: why",
                           "u is left out: it ran without a sandbox", "some, k = 4, is left out"}) {
    EXPECT_NE(text.find(note), std::string::npos) << note << "\n" << text;
  }
  EXPECT_THROW(report_of({fuzzy}), datasets::InputError);
}

TEST(QualityReport, JsonHasNullForNever) {
  const json report =
      to_json(report_of({row("a", "random:1", {200.0}, 100.0)}, {{"some", 3, 90.0}}));
  EXPECT_TRUE(report["summaries"][0]["median_ms"].is_null());
  EXPECT_EQ(report["problems"][0]["best_from"], "given");
  EXPECT_EQ(report["profiles"][0]["lines"][0]["rho"], json(std::vector<double>(6, 0.0)));
}

TEST(QualityPlan, SeedsAndBestAreParsed) {
  EXPECT_EQ(parse_seeds("3"), (std::vector<std::uint64_t>{3}));
  EXPECT_EQ(parse_seeds("2..4"), (std::vector<std::uint64_t>{2, 3, 4}));
  for (const char* bad : {"", "..", "1..", "4..2", "x", "1..9999999", "-1", "1...3"}) {
    EXPECT_THROW(parse_seeds(bad), datasets::InputError) << bad;
  }
  const GivenBest best = parse_best("a:b.npy:8=1.5e7");
  EXPECT_EQ(best.data, "a:b.npy");
  EXPECT_EQ(best.k, 8u);
  EXPECT_EQ(best.inertia, 1.5e7);
  EXPECT_EQ(best.n, 0u);
  EXPECT_EQ(parse_best("a:8,500=1").n, 500u);
  for (const char* bad : {"", "a:8,=1", "a:8,0=1", "a:,5=1", "a:8", "a=1", "a:8=", "a:x=1",
                          "a:8=-1", "a:8=nan", "a:8=inf"}) {
    EXPECT_THROW(parse_best(bad), datasets::InputError) << bad;
  }
}

TEST(QualityPlan, InitialisationsKeepTheirSeeds) {
  EXPECT_EQ(start_state("random:12").init, "random");
  EXPECT_EQ(start_state("kmeans++:3").seed, 3u);
  EXPECT_EQ(start_state("rows:1,2").init, "rows:1,2");
  EXPECT_EQ(start_state("first").init, "first");
}

} // namespace
} // namespace clusterbench

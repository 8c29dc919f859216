// Tables made of ledgers: what is pooled, ranked, and said.
#include "harness/report/ranking_table.hpp"
#include "harness/report/table_json.hpp"
#include "tests/unit/report_tables.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace clusterbench {
namespace {

/// Why variant `b` is not ranked if its row is changed; rows `a` and `c` are as the table asks.
std::string unranked_after(const std::function<void(json&)>& change) {
  json changed = row("b", "ok", 1.0);
  change(changed);
  const TableReport report =
      report_of({"a", "b", "c"}, {row("a", "ok", 3.0), changed, row("c", "ok", 2.0)});
  EXPECT_EQ(report.cells[0].by_iteration.rank, report.cells[1].by_iteration.rank == 0 ? 2u : 3u);
  for (const ReportCell& cell : report.cells) {
    for (const Place& place : {cell.by_iteration, cell.by_whole}) {
      EXPECT_EQ(place.rank == 0, !place.unranked.empty());
    }
  }
  return report.cells[1].by_iteration.unranked;
}

/// Why it is not ranked by whole answer.
std::string whole_unranked_after(const std::function<void(json&)>& change) {
  json changed = row("b", "ok", 1.0);
  change(changed);
  const TableReport report =
      report_of({"a", "b", "c"}, {row("a", "ok", 3.0), changed, row("c", "ok", 2.0)});
  EXPECT_EQ(report.cells[1].by_iteration.rank, 1u); // a pass is a pass
  EXPECT_EQ(report.cells[0].by_whole.rank, 2u);
  return report.cells[1].by_whole.unranked;
}

TEST(Report, RoundsArePooledByTheirMedian) {
  const std::string text =
      text_of({"a"}, {row("a", "ok", 3.0, 1), row("a", "ok", 100.0, 2), row("a", "ok", 5.0, 3)});
  // ms per iteration, over the first, whole answer, run, MAD, iterations.
  EXPECT_EQ(line_of(text, "a"),
            "| p f32 | 1 | 1 | a | 0.50 | 1 | 6.0 | 5.0 | 2.0 | 10 | | right | |");
  EXPECT_NE(text.find("a note"), std::string::npos);
}

TEST(Report, AFailedRoundSpeaksForTheCell) {
  const std::string text =
      text_of({"a", "b", "c", "d"}, {row("a", "ok", 3.0, 1), row("a", "wrong", 1.0, 2),
                                     row("b", "crashed", 0.0), row("c", "cheated", 0.0)});
  // No time and no rank.
  EXPECT_EQ(line_of(text, "a"), "| p f32 | – | – | a | | | | | | | | wrong | wrong: why |");
  EXPECT_EQ(line_of(text, "b"), "| p f32 | – | – | b | | | | | | | | crashed | crashed: why |");
  EXPECT_EQ(line_of(text, "c"), "| p f32 | – | – | c | | | | | | | | cheated | cheated: why |");
  EXPECT_NE(text.find("Not run, or not everywhere: d f32."), std::string::npos);
}

TEST(Report, OfSeveralRowsOfOneRoundTheNewestCounts) {
  const TableReport report = report_of({"a"}, {row("a", "crashed", 0.0), row("a", "ok", 2.0)});
  EXPECT_EQ(report.cells[0].measured->median_of("median_ms"), 2.0);
  EXPECT_FALSE(report_of({"a"}, {row("a", "ok", 2.0), row("a", "wrong", 0.0)}).cells[0].ok());
  // A later build without the backend says nothing.
  EXPECT_TRUE(report_of({"a"}, {row("a", "ok", 2.0), row("a", "unavailable", 0.0)}).cells[0].ok());
}

/// A row of k clusters.
json row_of_k(const std::string& variant, std::size_t k, double median, int round = 1) {
  json line = row(variant, "ok", median, round);
  line["problem"]["k"] = k;
  line["problem"]["hash"] = fmt::format("of {} clusters", k);
  return line;
}

TEST(Report, RoundsOfOtherProblemsOfTheNameAreOtherCells) {
  const Measurements both =
      measured({row_of_k("a", 4, 2.0, 1), row_of_k("a", 16, 9.0, 1), row_of_k("a", 4, 3.0, 2)});
  ASSERT_EQ(both.cells.size(), 2u);
  EXPECT_EQ(both.cells[0].rounds.size(), 2u);
  EXPECT_EQ(both.cells[1].rounds.size(), 1u);
  EXPECT_TRUE(both.cells[0].shown_first && both.cells[1].shown_first);
  for (const char* key : {"init", "stop", "weights"}) {
    json other = row("a", "ok", 2.0);
    other["problem"][key] = "other";
    EXPECT_EQ(measured({row("a", "ok", 2.0), other}).cells.size(), 2u) << key;
  }
  json limited = row("a", "ok", 2.0);
  limited["memory"] = {{"limit_bytes", 1000}, {"peak_bytes", 1}, {"held_by", "it"}};
  EXPECT_EQ(measured({row("a", "ok", 2.0), limited}).cells.size(), 2u);
  json other_data = row("a", "ok", 2.0);
  other_data["problem"]["hash"] = "another";
  EXPECT_EQ(measured({row("a", "ok", 2.0), other_data}).cells.size(), 2u);
}

TEST(Report, ARowWithoutDataIsOfTheCellThatMendsIt) {
  json no_data = row("a", "out_of_memory", 0.0);
  for (const char* told : {"n", "d", "data_sha256", "hash"}) {
    no_data["problem"].erase(told);
  }
  json mended = row("a", "ok", 2.0);
  mended["memory"] = {{"limit_bytes", 1000}, {"peak_bytes", 1}, {"held_by", "it"}};
  for (const auto& rows : {std::vector{no_data, mended}, std::vector{mended, no_data}}) {
    const Measurements one = measured(rows);
    ASSERT_EQ(one.cells.size(), 1u);
    EXPECT_EQ(one.cells[0].rounds.size(), 1u);
    EXPECT_EQ(one.cells[0].ok(), rows.back() == mended);
  }
}

TEST(Report, TheTablesOwnProblemIsShown) {
  const TableReport report = report_of({"a", "b"}, {row_of_k("a", 16, 9.0), row_of_k("b", 16, 9.0),
                                                    row("a", "ok", 2.0), row("b", "ok", 3.0)});
  ASSERT_EQ(report.cells.size(), 4u);
  for (const ReportCell& cell : report.cells) {
    const bool own = cell.measured->identity().hash == "of p";
    EXPECT_EQ(cell.shown_first(), own);
    EXPECT_EQ(cell.by_iteration.unranked, own ? "" : "k 16, the table says 4");
  }
}

TEST(Report, ThreadsAreSaidWhereAVariantHasSeveral) {
  json one = row("a", "ok", 5.0);
  one["threads"] = 1;
  const auto narrow = [](const std::vector<json>& rows) {
    return table_text(report_of({"a"}, rows), TableForm::narrow, TextStyle::terminal);
  };
  EXPECT_EQ(narrow({one}).find("threads"), std::string::npos);
  const std::string text = narrow({row("a", "ok", 2.0), one});
  EXPECT_NE(text.find("variant  threads"), std::string::npos) << text;
  EXPECT_EQ(line_of(text, "a").substr(0, 12), " 1 1 a 2 0.2") << text;
}

TEST(Report, RowsOfAnotherMachineAreOthers) {
  std::vector<Row> rows = made_up::rows_of({row("a", "ok", 2.0)});
  rows.push_back(made_up::rows_of({row("a", "wrong", 1.0)}, made_up::header("another")).front());
  const Measurements both = measurements_of(rows, kTable);
  ASSERT_EQ(both.cells.size(), 2u);
  EXPECT_TRUE(both.cells[0].ok());
  EXPECT_TRUE(both.cells[0].shown_first);
  EXPECT_FALSE(both.cells[1].ok());
  EXPECT_EQ(both.machines[1].name, "another, 2 cores");
}

TEST(Report, JsonTellsOfEachRoundWhenItWasAndOfHowManySamples) {
  json second = row("a", "ok", 3.0, 2);
  second["time"] = "2026-11-22T00:00:00Z";
  const json report = to_json(report_of({"a"}, {row("a", "ok", 2.0), second}));
  const json& cell = report["cells"][0];
  EXPECT_EQ(cell["rounds"], 2);
  EXPECT_EQ(cell["times"], json({"2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"}));
  EXPECT_EQ(cell["runs"].size(), 2u);
  EXPECT_EQ(cell["runs"][1], second["samples_ms"].size());
  EXPECT_EQ(cell["whole_answers"][1], second["whole"].size());
  EXPECT_EQ(report["machines"][0]["environment"], made_up::header()["environment_hash"]);
  EXPECT_TRUE(report["machines"][0]["cpu_shares"].empty()); // no probe
}

TEST(Report, OfMachinesWithTheSameHardwareTheNewestResultIsShown) {
  json first = made_up::header(), other_kernel = first;
  other_kernel["provenance"]["system"]["kernel"] = "another";
  other_kernel["environment_hash"] = "another";
  const auto shown = [&](const json& second_head, const std::string& status, int threads,
                         const char* day) {
    json second = row("a", status, 2.0);
    second["time"] = fmt::format("{}T00:00:00Z", day);
    second["threads"] = threads;
    std::vector<Row> rows = made_up::rows_of({row("a", "ok", 3.0)}, first);
    rows.push_back(made_up::rows_of({second}, second_head).front());
    const Measurements both = measurements_of(rows, kTable);
    EXPECT_EQ(both.cells.size(), 2u);
    EXPECT_NE(both.cells[0].shown_first, both.cells[1].shown_first);
    return both.cells[0].shown_first ? 0 : 1;
  };
  const int threads = row("a", "ok", 2.0).at("threads");
  EXPECT_EQ(shown(other_kernel, "ok", threads, "2026-11-22"), 1);
  EXPECT_EQ(shown(other_kernel, "ok", threads, "2026-11-20"), 0);
  EXPECT_EQ(shown(other_kernel, "wrong", threads, "2026-11-22"), 0);
  EXPECT_EQ(shown(other_kernel, "ok", threads + 1, "2026-11-22"), 0); // other work
  EXPECT_EQ(shown(made_up::header("another"), "ok", threads, "2026-11-22"), 0);
}

TEST(Report, MoreGpusStayShownWhereFewerRanLater) {
  const auto of_gpus = [](int gpus, const char* day) {
    json line = row("a", "ok", 2.0);
    line["gpus"] = gpus;
    line["time"] = fmt::format("{}T00:00:00Z", day);
    return line;
  };
  const Measurements both = measured({of_gpus(2, "2026-11-21"), of_gpus(1, "2026-11-22")});
  ASSERT_EQ(both.cells.size(), 2u);
  EXPECT_TRUE(both.cells[0].shown_first);
}

TEST(Report, AMachinesLimitsAreThoseOfAllItsCampaigns) {
  const auto campaign = [](int threads, double gbs, int round) {
    json head = made_up::header();
    const json probed = {{"threads", threads}, {"read_gbs", gbs}, {"cpu_share", gbs / 10.0}};
    head["limits"] = {{"cpu", json::array({probed})}, {"gpu", nullptr}};
    return made_up::rows_of({row("a", "ok", 2.0, round)}, head).front();
  };
  const Measurements all =
      measurements_of({campaign(1, 5.0, 1), campaign(2, 9.0, 2), campaign(2, 8.0, 3)}, kTable);
  ASSERT_EQ(all.machines.size(), 1u);
  std::map<int, double> found;
  for (const json& cpu : all.machines[0].limits.at("cpu")) {
    found[cpu.at("threads")] = cpu.at("read_gbs");
  }
  EXPECT_EQ(found, (std::map<int, double>{{1, 5.0}, {2, 8.0}}));
  EXPECT_EQ(all.machines[0].cpu_shares, (std::vector<double>{0.5, 0.9, 0.8})); // of every probe
}

TEST(Report, RowsOfOtherTablesAreLeftOut) {
  json other = row("a", "ok", 2.0);
  other["table"] = "u";
  EXPECT_FALSE(report_of({"a"}, {other}).cells[0].measured);
}

TEST(Report, VerificationSaysWhatWasChecked) {
  json steps = row("a", "ok", 2.0);
  steps["oracle"] = "single steps only";
  EXPECT_EQ(verification_text(report_of({"a"}, {steps}).cells[0]), "right (single steps)");
}

TEST(EqualWork, IsRanked) {
  const TableReport report = report_of({"a", "b"}, {row("a", "ok", 3.0), row("b", "ok", 1.0)});
  EXPECT_EQ(report.cells[1].by_iteration.rank, 1u);
  EXPECT_EQ(report.cells[1].by_whole.rank, 1u);
}

TEST(EqualWork, IsRankedWhereNothingCouldBeReseeded) {
  json peer = row("b", "ok", 1.0);
  peer["reseeds_empty"] = true;
  peer["empty_at"] = 0;
  EXPECT_EQ(report_of({"a", "b"}, {row("a", "ok", 3.0), peer}).cells[1].by_iteration.rank, 1u);
}

TEST(EqualWork, AnythingElseIsNot) {
  EXPECT_EQ(unranked_after([](json& r) { r["problem"]["data"] = "others"; }),
            "data others, the table says some-data");
  EXPECT_EQ(unranked_after([](json& r) { r["problem"]["data_sha256"] = "abd"; }),
            "other data of the same name");
  EXPECT_EQ(unranked_after([](json& r) { r["problem"]["take"] = 50; }),
            "rows taken 50, the table says all");
  EXPECT_EQ(unranked_after([](json& r) { r["problem"]["init"] = "random:1"; }),
            "initial state random:1, the table says first");
  EXPECT_EQ(unranked_after([](json& r) { r["problem"]["stop"] = "labels"; }),
            "stop rule labels, the table says iterations");
  EXPECT_EQ(whole_unranked_after([](json& r) { r["own_start"]["iterations"] = 9; }),
            "9 iterations, the others 10");
  EXPECT_EQ(whole_unranked_after([](json& r) {
              r["own_start"]["iterations"] = 9;
              r["early_stop"] = true;
            }),
            "stopped early: 9 iterations, the others 10");
  EXPECT_EQ(unranked_after([](json& r) { r["reseeds_empty"] = true; }),
            "re-seeds empty clusters, if there are any");
  EXPECT_EQ(unranked_after([](json& r) {
              r["reseeds_empty"] = true;
              r["empty_at"] = 3;
            }),
            "re-seeds empty clusters, as in pass 3");
  EXPECT_EQ(unranked_after([](json& r) { r["arithmetic"] = "tf32"; }), "computes in tf32");
}

TEST(EqualWork, WhereARuleDecidesMostCellsDo) {
  Table table = table_of({"a", "b", "c"});
  table.problems[0].second.stop.kind = StopRule::Kind::labels;
  std::vector<json> rows;
  for (const auto& [variant, iterations] : {std::pair("a", 7), {"b", 8}, {"c", 7}}) {
    json entry = row(variant, "ok", 1.0);
    entry["problem"]["stop"] = "labels";
    entry["own_start"]["iterations"] = iterations;
    rows.push_back(entry);
  }
  const TableReport report = make_table_report(table, measured(rows), std::nullopt);
  EXPECT_EQ(report.cells[1].by_whole.unranked, "8 iterations, the others 7");
  EXPECT_EQ(report.cells[2].by_whole.rank, 1u); // as fast as the first
  EXPECT_TRUE(report.cells[2].by_whole.tied);
}

TEST(EqualWork, PrecisionsAreRankedApart) {
  Table table = table_of({"a", "b"});
  table.cells[1].precision = Precision::f64;
  json other = row("b", "ok", 2.0);
  other["precision"] = "f64";
  other["name"] = "t/p/b/f64";
  const TableReport report =
      make_table_report(table, measured({row("a", "ok", 3.0), other}), std::nullopt);
  EXPECT_EQ(report.cells[0].by_iteration.rank, 1u);
  EXPECT_EQ(report.cells[1].by_iteration.rank, 1u);
}

TEST(Report, AvoidedWorkIsAColumnIfAnyRowHasIt) {
  json skips = row("a", "ok", 2.0);
  skips["counters"] = {{"distances", 1000.0}}; // of 100 points, 4 centroids, 10 passes
  EXPECT_EQ(distances_avoided_percent(report_of({"a"}, {skips}).cells[0].measured.value()), 75.0);
  EXPECT_NE(text_of({"a", "b"}, {skips, row("b", "ok", 2.0)}).find("% of distances avoided"),
            std::string::npos);
  EXPECT_EQ(text_of({"b"}, {row("b", "ok", 2.0)}).find("avoided"), std::string::npos);
}

TEST(Report, WarmUpIsShownWhereThereIsSome) {
  json warm = row("a", "ok", 2.0);
  warm["warm_up_samples_ms"] = {9.0};
  const std::string text = text_of({"a", "b"}, {warm, row("b", "ok", 3.0)});
  EXPECT_NE(text.find("% warm-up"), std::string::npos);
  EXPECT_NE(line_of(text, "a").find("| 25.0 |"), std::string::npos) << text;
  EXPECT_EQ(text_of({"b"}, {row("b", "ok", 3.0)}).find("warm-up"), std::string::npos);
}

TEST(Report, AnEditedLedgerIsTold) {
  Measurements measurements = measured({row("a", "ok", 2.0)});
  measurements.edited = {"x/ledger.jsonl: edited: line 2 is not as it was written"};
  const TableReport report = make_table_report(table_of({"a"}), measurements, std::nullopt);
  EXPECT_NE(table_text(report, TableForm::compact, TextStyle::terminal).find("edited: line 2"),
            std::string::npos);
  EXPECT_EQ(to_json(report)["edited"].size(), 1u);
}

// ---- ranks

TEST(Ranks, ByIterationAndByWholeAnswer) {
  json prepares = row("b", "ok", 2.0); // faster, but for what it makes ready
  for (json& answer : prepares["whole"]) {
    answer["ms"] = 50.0;
  }
  const TableReport report = report_of({"a", "b"}, {row("a", "ok", 3.0), prepares});
  EXPECT_EQ(report.cells[0].by_iteration.rank, 2u);
  EXPECT_EQ(report.cells[0].by_whole.rank, 1u);
  EXPECT_EQ(report.cells[1].by_iteration.rank, 1u);
  EXPECT_EQ(report.cells[1].by_whole.rank, 2u);
}

json with_samples(const std::string& variant, const std::vector<double>& samples,
                  const std::vector<std::size_t>& starts) {
  json line = row(variant, "ok", 1.0);
  made_up::put_times(line, samples, 10);
  line["sample_starts"] = starts;
  return line;
}

TEST(Ranks, AreOfRatiosByStart) {
  // `b` has sampled the cheap starts more often; from each start it is slower.
  const json a = with_samples("a", {10.0, 20.0, 30.0, 40.0, 50.0}, {0, 1, 2, 3, 4});
  const json b = with_samples("b", {11.0, 22.0, 33.0, 5.0, 5.0}, {0, 1, 2, 9, 18});
  const TableReport report = report_of({"a", "b"}, {a, b});
  EXPECT_EQ(report.cells[0].by_iteration.rank, 1u);
  EXPECT_EQ(report.cells[1].by_iteration.rank, 2u);
  EXPECT_TRUE(report.cells[1].over_first->paired);
  EXPECT_NEAR(report.cells[1].over_first->ratio, 1.1, 1e-12);
  // Without the same starts, medians are all there is.
  const TableReport unpaired = make_table_report(
      table_of({"a", "b"}),
      measurements_of(made_up::rows_of({a, b}, made_up::header("x", {})), kTable), std::nullopt);
  EXPECT_EQ(unpaired.cells[1].by_iteration.rank, 1u);
  EXPECT_NE(table_text(unpaired, TableForm::full, TextStyle::terminal).find("starts in common"),
            std::string::npos);
}

TEST(Ranks, AreSharedWhereIntervalsDoNotTell) {
  const auto of_rounds = [](const std::string& variant, const std::vector<double>& medians) {
    std::vector<json> lines;
    for (std::size_t i = 0; i < medians.size(); ++i) {
      json line = row(variant, "ok", 1.0, static_cast<int>(i) + 1);
      made_up::put_times(line, {medians[i], medians[i] * 1.001, medians[i] * 0.999}, 10);
      lines.push_back(line);
    }
    return lines;
  };
  const auto report_with = [&](const std::vector<std::vector<json>>& variants) {
    std::vector<json> lines;
    for (const std::vector<json>& each : variants) {
      lines.insert(lines.end(), each.begin(), each.end());
    }
    return report_of({"a", "b", "c", "d"}, lines);
  };
  const std::vector<double> tens = {10.0, 10.4, 9.7, 10.1, 9.9, 10.3};
  const std::vector<double> alike = {10.1, 9.8, 10.5, 10.0, 10.2, 9.9};
  const std::vector<double> slower = {12.0, 12.3, 11.8, 12.1, 11.9, 12.2};
  const std::vector<double> far_apart = {9.9, 30.0, 10.0, 30.0, 31.0, 9.8};
  const TableReport report = report_with({of_rounds("a", tens), of_rounds("b", alike),
                                          of_rounds("c", slower), of_rounds("d", far_apart)});
  const auto rank_of = [&](std::size_t cell) {
    return rank_text(report.cells[cell], report.cells[cell].by_iteration);
  };
  EXPECT_EQ(rank_of(0), "1=");
  EXPECT_EQ(rank_of(1), "1=");
  EXPECT_EQ(rank_of(2), "3=");
  EXPECT_EQ(rank_of(3), "3="); // with all of a rank, or with none
  EXPECT_NE(table_text(report, TableForm::full, TextStyle::terminal).find("= Others have"),
            std::string::npos);
  const json cells = to_json(report)["cells"];
  EXPECT_EQ(cells[1]["rank"], 1);
  EXPECT_EQ(cells[1]["rank_tied"], true);

  const TableReport few = report_with({of_rounds("a", {10.0, 11.0}), of_rounds("b", {10.5, 10.6})});
  EXPECT_EQ(few.cells[0].by_iteration.rank + few.cells[1].by_iteration.rank, 3u);
}

TEST(Ranks, CostPerPassCountsWherePassesDiffer) {
  json fewer = with_samples("b", {5.0, 5.0, 5.0}, {0, 1, 2}); // half the passes, each dearer
  fewer["sample_iterations"] = {4, 4, 4};
  const TableReport report =
      report_of({"a", "b"}, {with_samples("a", {10, 10, 10}, {0, 1, 2}), fewer});
  EXPECT_EQ(report.cells[0].by_iteration.rank, 1u);
  EXPECT_NEAR(report.cells[1].over_first->ratio, 1.25, 1e-12);
}

TEST(Ranks, ApproximateVariantsHaveTheirOwn) {
  json approximate = row("b", "ok", 1.0);
  approximate["approximate_within"] = 0.01;
  approximate["arithmetic"] = "f16";
  approximate["verification"] = {{{"of", "an answer"}},
                                 {{"labels_differ", 0.0123}, {"relative_difference", 2e-4}}};
  const TableReport report = report_of({"a", "b"}, {row("a", "ok", 3.0), approximate});
  EXPECT_EQ(report.cells[0].by_iteration.rank, 1u);
  EXPECT_EQ(report.cells[1].by_iteration.rank, 1u);
  const std::string text = table_text(report, TableForm::full, TextStyle::markdown);
  const std::string line = line_of(text, "b");
  EXPECT_NE(line.find("| ≈1 | ≈1 | b |"), std::string::npos) << line;
  EXPECT_NE(line.find("approximate: 1.23 % of labels differ, objective +0.0002"),
            std::string::npos);
  EXPECT_LT(text.find("| a "), text.find("| b "));
  EXPECT_EQ(to_json(report)["cells"][1]["approximate"]["labels_differ"], 0.0123);
}

TEST(Ranks, WithoutASandboxThereIsNone) {
  EXPECT_EQ(unranked_after([](json& r) { r["unsandboxed"] = true; }), "ran without a sandbox");
}

TEST(Compact, ManyProblemsStandBelowOneAnother) {
  const auto rows = measured({row("one", "ok", 30.0), row("two", "ok", 50.0)});
  Table table = table_of({"one", "two"});
  const auto text = [&] {
    return table_text(make_table_report(table, rows, std::nullopt), TableForm::compact,
                      TextStyle::markdown);
  };
  const auto is_row = [](const std::string& all, const std::string& first) {
    return all.find("\n| " + first + " ") != std::string::npos;
  };
  while (table.problems.size() < 12) {
    table.problems.emplace_back(fmt::format("p{}", table.problems.size()), problem());
  }
  EXPECT_TRUE(is_row(text(), "one"));
  EXPECT_FALSE(is_row(text(), "p11"));
  table.problems.emplace_back("p12", problem());
  const std::string turned = text();
  EXPECT_FALSE(is_row(turned, "one"));
  EXPECT_FALSE(is_row(turned, "p12")) << "nothing ran it";
  EXPECT_NE(turned.find("Nothing ran 12 more of the table's problems."), std::string::npos)
      << turned;
  const auto at = turned.find("\n| " + std::string(kProblem) + " ");
  ASSERT_NE(at, std::string::npos);
  const std::string line = turned.substr(at + 1, turned.find('\n', at + 1) - at - 1);
  EXPECT_NE(line.find(" 3.00¹; 31.0¹ | 5.00; 51.0 "), std::string::npos) << line;
}

} // namespace
} // namespace clusterbench

// Tables made of ledgers: what is pooled, ranked, compared with the article, and said.
#include "harness/report/table_json.hpp"
#include "harness/report/table_text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

namespace clusterbench {
namespace {

using nlohmann::json;

const std::string kTable = "t";
const std::string kProblem = "p";

ProblemSpec problem() {
  ProblemSpec spec;
  spec.data = "some-data";
  spec.k = 4;
  spec.stop.max_iterations = 10;
  return spec;
}

json row(const std::string& variant, const std::string& status, double median, int round = 1) {
  json words = to_json(problem());
  words.update({{"id", kProblem}, {"n", 100}, {"d", 2}, {"data_sha256", "abc"}});
  json row = {{"type", "cell"},     {"table", kTable},
              {"variant", variant}, {"precision", "f32"},
              {"round", round},     {"status", status},
              {"problem", words},   {"threads", 2},
              {"device", "cpu"},    {"message", status == "ok" ? "" : "why"}};
  if (status == "ok" || status == "wrong") {
    row.update({{"median_ms", median},
                {"mad_ms", 0.5},
                {"iterations", 10},
                {"recorded_passes", 10},
                {"ms_per_iteration", median / 10},
                {"end_to_end_ms", median + 1},
                {"oracle", "whole run"}});
  }
  return row;
}

Table table_of(const std::vector<std::string>& variants) {
  Table table;
  table.name = kTable;
  table.title = "title";
  table.source = "source";
  table.notes = {"a note"};
  table.problems.emplace_back(kProblem, problem());
  for (const std::string& variant : variants) {
    CellSpec& cell = table.cells.emplace_back();
    cell.table = kTable;
    cell.problem_id = kProblem;
    cell.problem = problem();
    cell.variant = variant;
  }
  return table;
}

TableReport report_of(const std::vector<std::string>& variants, const std::vector<json>& rows) {
  return make_table_report(table_of(variants), campaign_measurements(rows, kTable), std::nullopt);
}

std::string text_of(const std::vector<std::string>& variants, const std::vector<json>& rows) {
  return table_text(report_of(variants, rows), TableForm::full, TextStyle::markdown);
}

/// The line of a variant, with runs of blanks made one.
std::string line_of(const std::string& text, const std::string& variant) {
  const auto at = text.find(fmt::format(" {} ", variant));
  if (at == std::string::npos) {
    return "(no line)";
  }
  const auto begin = text.rfind('\n', at) + 1;
  std::string line = text.substr(begin, text.find('\n', at) - begin);
  line.erase(
      std::unique(line.begin(), line.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      line.end());
  return line;
}

/// Why variant `b` is not ranked if its row is changed; rows `a` and `c` are as the table asks.
std::string unranked_after(const std::function<void(json&)>& change) {
  json changed = row("b", "ok", 1.0);
  change(changed);
  const TableReport report =
      report_of({"a", "b", "c"}, {row("a", "ok", 3.0), changed, row("c", "ok", 2.0)});
  EXPECT_EQ(report.cells[0].rank, 2u);
  EXPECT_EQ(report.cells[2].rank, 1u);
  EXPECT_EQ(report.cells[1].rank == 0, !report.cells[1].unranked.empty());
  return report.cells[1].unranked;
}

TEST(Report, RoundsArePooledByTheirMedian) {
  const std::string text =
      text_of({"a"}, {row("a", "ok", 3.0, 1), row("a", "ok", 100.0, 2), row("a", "ok", 5.0, 3)});
  EXPECT_EQ(line_of(text, "a"), "| p f32 | 1 | a | 5 | 0.5 | 10 | 0.5 | 6 | | right | |");
  EXPECT_NE(text.find("a note"), std::string::npos);
}

TEST(Report, AFailedRoundSpeaksForTheCell) {
  const std::string text =
      text_of({"a", "b", "c"},
              {row("a", "ok", 3.0, 1), row("a", "wrong", 1.0, 2), row("b", "crashed", 0.0)});
  // No time and no rank.
  EXPECT_EQ(line_of(text, "a"), "| p f32 | – | a | | | | | | | wrong | wrong: why |");
  EXPECT_EQ(line_of(text, "b"), "| p f32 | – | b | | | | | | | crashed | crashed: why |");
  EXPECT_NE(text.find("Not run, or not everywhere: c f32."), std::string::npos);
}

TEST(Report, OfSeveralRowsOfOneRoundTheNewestCounts) {
  const TableReport report = report_of({"a"}, {row("a", "crashed", 0.0), row("a", "ok", 2.0)});
  EXPECT_EQ(report.cells[0].measured->median_of("median_ms"), 2.0);
  // A later build without the backend says nothing.
  EXPECT_TRUE(report_of({"a"}, {row("a", "ok", 2.0), row("a", "unavailable", 0.0)}).cells[0].ok());
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
  EXPECT_EQ(report_of({"a", "b"}, {row("a", "ok", 3.0), row("b", "ok", 1.0)}).cells[1].rank, 1u);
}

TEST(EqualWork, IsRankedWhereNothingCouldBeReseeded) {
  json peer = row("b", "ok", 1.0);
  peer["reseeds_empty"] = true;
  peer["empty_at"] = 0;
  EXPECT_EQ(report_of({"a", "b"}, {row("a", "ok", 3.0), peer}).cells[1].rank, 1u);
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
  EXPECT_EQ(unranked_after([](json& r) { r["iterations"] = 9; }), "9 iterations, the others 10");
  EXPECT_EQ(unranked_after([](json& r) {
              r["iterations"] = 9;
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
    entry["iterations"] = iterations;
    rows.push_back(entry);
  }
  const TableReport report =
      make_table_report(table, campaign_measurements(rows, kTable), std::nullopt);
  EXPECT_EQ(report.cells[1].unranked, "8 iterations, the others 7");
  EXPECT_EQ(report.cells[2].rank, 2u);
}

TEST(EqualWork, PrecisionsAreRankedApart) {
  Table table = table_of({"a", "b"});
  table.cells[1].precision = Precision::f64;
  json other = row("b", "ok", 2.0);
  other["precision"] = "f64";
  const TableReport report = make_table_report(
      table, campaign_measurements({row("a", "ok", 3.0), other}, kTable), std::nullopt);
  EXPECT_EQ(report.cells[0].rank, 1u);
  EXPECT_EQ(report.cells[1].rank, 1u);
}

TEST(Report, AvoidedWorkIsAColumnIfAnyRowHasIt) {
  json skips = row("a", "ok", 2.0);
  skips["counters"] = {{"distances", 1000.0}}; // of 100 points, 4 centroids, 10 passes
  EXPECT_EQ(distances_avoided_percent(report_of({"a"}, {skips}).cells[0].measured.value()), 75.0);
  EXPECT_NE(text_of({"a", "b"}, {skips, row("b", "ok", 2.0)}).find("% of distances avoided"),
            std::string::npos);
  EXPECT_EQ(text_of({"b"}, {row("b", "ok", 2.0)}).find("avoided"), std::string::npos);
}

TEST(Report, EndToEndIncludesLoadingWhereItIsKnown) {
  json loaded = row("a", "ok", 2.0);
  loaded["load_ms"] = 40.0;
  EXPECT_EQ(*end_to_end_ms(report_of({"a"}, {loaded}).cells[0].measured.value()), 43.0);
  loaded["peer"] = {{"load_ms", 100.0}};
  EXPECT_EQ(*end_to_end_ms(report_of({"a"}, {loaded}).cells[0].measured.value()), 143.0);
  EXPECT_EQ(*end_to_end_ms(report_of({"a"}, {row("a", "ok", 2.0)}).cells[0].measured.value()), 3.0);
}

// ---- beside the article

PrintedCell printed(const std::string& label, double ms, const std::string& variant) {
  PrintedCell cell;
  cell.label = label;
  cell.key = label;
  cell.line = 1;
  cell.column = kProblem;
  cell.problem = kProblem;
  cell.variant = variant;
  cell.precision = "f32";
  cell.ms = ms;
  return cell;
}

Published article(std::vector<PrintedCell> cells) {
  Published published;
  published.article = "x.txt";
  published.title = "An article";
  published.baseline = "slow";
  published.baseline_reason = "it is slow";
  published.speedup_reason = "because";
  published.cells = std::move(cells);
  return published;
}

/// Measurements of two machines: rows with "on": 1 are of the second.
Measurements on_two_machines(std::vector<json> rows) {
  Measurements both;
  for (std::size_t machine = 0; machine < 2; ++machine) {
    std::vector<json> here;
    for (const json& row : rows) {
      if (row.value("on", 0u) == machine) {
        here.push_back(row);
      }
    }
    Measurements one = campaign_measurements(here, kTable);
    one.machines[0].id = machine_id(machine);
    both.machines.push_back(one.machines[0]);
    for (Measured& cell : one.cells) {
      cell.machine = machine;
      both.cells.push_back(cell);
    }
  }
  return both;
}

json on_second(json row) {
  row["on"] = 1;
  return row;
}

TEST(Beside, SpeedUpsOfBothAndTheVerdict) {
  const TableReport report =
      make_table_report(table_of({"a", "b"}),
                        campaign_measurements({row("a", "ok", 30.0), row("b", "ok", 2.0)}, kTable),
                        article({printed("fast", 10.0, "b"), printed("slow", 100.0, "a")}));
  ASSERT_EQ(report.beside.size(), 2u);
  EXPECT_EQ(report.beside[0].printed.label, "fast"); // the article's order, not the table's
  EXPECT_DOUBLE_EQ(report.beside[0].printed_speedup, 10.0);
  EXPECT_DOUBLE_EQ(*report.beside[0].speedup, 15.0);
  EXPECT_EQ(report.beside[0].verdict.word, "reproduced");
  EXPECT_EQ(report.beside[1].verdict.word, "baseline");
  EXPECT_EQ(report.cells[1].label, "fast");
}

TEST(Beside, IterationsAreComparedWhereRowsExecutedDifferentNumbers) {
  Published published = article({printed("slow", 100.0, "a"), printed("fast", 10.0, "b")});
  published.speedup_of = SpeedupOf::iteration;
  published.cells[0].iterations = 50;
  published.cells[1].iterations = 10;
  json fewer = row("b", "ok", 2.0);
  fewer["iterations"] = 5;
  fewer["ms_per_iteration"] = 0.4;
  const auto rows = campaign_measurements({row("a", "ok", 30.0), fewer}, kTable);
  const TableReport report = make_table_report(table_of({"a", "b"}), rows, published);
  EXPECT_DOUBLE_EQ(report.beside[1].printed_speedup, 2.0);
  EXPECT_DOUBLE_EQ(*report.beside[1].speedup, 3.0 / 0.4);
  published.speedup_of = SpeedupOf::run; // then a run of fewer iterations is other work
  const TableReport runs = make_table_report(table_of({"a", "b"}), rows, published);
  EXPECT_EQ(runs.beside[1].verdict.word, "not comparable");
  EXPECT_FALSE(runs.beside[1].speedup);
}

TEST(Beside, TheBaselineIsTakenOnTheSameMachineIfItIsThere) {
  const Published published = article({printed("slow", 100.0, "a"), printed("fast", 10.0, "b")});
  const TableReport same =
      make_table_report(table_of({"a", "b"}),
                        on_two_machines({row("a", "ok", 30.0), on_second(row("a", "ok", 8.0)),
                                         on_second(row("b", "ok", 1.0))}),
                        published);
  EXPECT_DOUBLE_EQ(*same.beside[1].speedup, 8.0);
  EXPECT_EQ(table_text(same, TableForm::compact, TextStyle::terminal).find("another machine"),
            std::string::npos);
  const TableReport across = make_table_report(
      table_of({"a", "b"}), on_two_machines({row("a", "ok", 30.0), on_second(row("b", "ok", 1.0))}),
      published);
  EXPECT_DOUBLE_EQ(*across.beside[1].speedup, 30.0);
  const std::string text = table_text(across, TableForm::compact, TextStyle::terminal);
  EXPECT_NE(text.find("30 ‡"), std::string::npos);
  EXPECT_NE(text.find("another machine"), std::string::npos);
}

TEST(Beside, RowsThatTheArticleDoesNotHaveFollowAndAreMarked) {
  const TableReport report = make_table_report(
      table_of({"extra", "a"}),
      campaign_measurements({row("extra", "ok", 3.0), row("a", "ok", 30.0)}, kTable),
      article({printed("slow", 100.0, "a")}));
  const std::string text = table_text(report, TableForm::full, TextStyle::markdown);
  EXPECT_LT(text.find("| slow "), text.find("| (not in the article) "));
  EXPECT_NE(text.find("| (not in the article) | extra f32 |"), std::string::npos);
  EXPECT_EQ(table_text(report, TableForm::compact, TextStyle::markdown).find("not in the article"),
            std::string::npos);
}

TEST(Compact, ManyProblemsStandBelowOneAnother) {
  const auto rows = campaign_measurements({row("one", "ok", 30.0), row("two", "ok", 50.0)}, kTable);
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
  EXPECT_TRUE(is_row(turned, "p12"));
  const auto at = turned.find("\n| " + std::string(kProblem) + " ");
  ASSERT_NE(at, std::string::npos);
  const std::string line = turned.substr(at + 1, turned.find('\n', at + 1) - at - 1);
  EXPECT_LT(line.find(" 3 "), line.find(" 5 ")) << line;
  EXPECT_NE(line.find(" 5 "), std::string::npos) << line;
}

// ---- verdicts

ComparedRow compared(const std::string& label, double printed_speedup, double speedup) {
  ComparedRow row;
  row.label = label;
  row.printed_speedup = printed_speedup;
  row.speedup = speedup;
  return row;
}

std::vector<ComparedRow> three(double first, double second) {
  std::vector<ComparedRow> rows = {compared("base", 1.0, 1.0), compared("x", 4.0, first),
                                   compared("y", 5.0, second)};
  rows[0].is_baseline = true;
  return rows;
}

TEST(Verdicts, WithinAFactorOfTwoAndInOrder) {
  EXPECT_EQ(judge_row(three(4.0, 5.0), 0).word, "baseline");
  EXPECT_EQ(judge_row(three(4.0, 5.0), 1).word, "reproduced");
  EXPECT_EQ(judge_row(three(7.9, 9.9), 1).word, "reproduced");
  EXPECT_EQ(judge_row(three(2.1, 2.6), 2).word, "reproduced");
  const RowVerdict above = judge_row(three(8.1, 9.0), 1);
  EXPECT_EQ(above.word, "not reproduced");
  EXPECT_EQ(above.reasons, (std::vector<std::string>{"speed-up 4 printed, 8.1 here"}));
  EXPECT_EQ(judge_row(three(1.9, 5.0), 1).word, "not reproduced");
  EXPECT_EQ(judge_row(three(std::nan(""), 5.0), 1).word, "not reproduced");
}

TEST(Verdicts, TheOrderMustBeThePrintedOne) {
  const RowVerdict swapped = judge_row(three(6.0, 5.0), 1);
  EXPECT_EQ(swapped.word, "not reproduced");
  EXPECT_EQ(swapped.reasons, (std::vector<std::string>{"printed slower than y, here faster"}));
  // Neither a wrong program's time nor one of other work has a place in the order.
  std::vector<ComparedRow> rows = three(6.0, 5.0);
  rows[2].wrong = "it is";
  EXPECT_EQ(judge_row(rows, 1).word, "reproduced");
  EXPECT_EQ(judge_row(rows, 2).word, "published program is wrong");
  rows[2].wrong = "";
  rows[2].other_work = "ten runs";
  EXPECT_EQ(judge_row(rows, 1).word, "reproduced");
  EXPECT_EQ(judge_row(rows, 2).word, "not comparable");
  rows = three(6.0, 5.0);
  rows[1].printed_speedup = 4.9; // as good as equal
  EXPECT_EQ(judge_row(rows, 1).word, "reproduced");
}

TEST(Verdicts, ARowMayStateAnotherFactorWithItsReason) {
  std::vector<ComparedRow> rows = three(11.0, 50.0);
  rows[1].factor = 3.0;
  rows[1].factor_reason = "another machine";
  EXPECT_EQ(judge_row(rows, 1).word, "reproduced");
  EXPECT_EQ(judge_row(rows, 1).reasons,
            (std::vector<std::string>{"within a factor of 3: another machine"}));
  EXPECT_EQ(judge_row(rows, 2).word, "not reproduced");
}

TEST(Verdicts, WithoutATimeThereIsNone) {
  std::vector<ComparedRow> rows = three(4.0, 5.0);
  rows[1].speedup.reset();
  rows[1].missing = "not run";
  EXPECT_EQ(judge_row(rows, 1).word, "not run");
  rows[1].missing = "computes in tf32";
  EXPECT_EQ(judge_row(rows, 1).word, "not comparable");
}

} // namespace
} // namespace clusterbench

// Tables beside the article: speed-ups of both, and whether the article's are reproduced.
#include "harness/report/table_json.hpp"
#include "harness/report/verdict.hpp"
#include "tests/unit/report_tables.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

PrintedCell printed(const std::string& label, double ms, const std::string& variant) {
  PrintedCell cell;
  cell.label = label;
  cell.key = label;
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
Measurements on_two_machines(const std::vector<json>& lines) {
  std::vector<Row> rows;
  for (const json& line : lines) {
    const char* machine = line.value("on", 0) == 0 ? "the first" : "the second";
    rows.push_back(made_up::rows_of({line}, made_up::header(machine)).front());
  }
  return measurements_of(rows, kTable);
}

json on_second(json row) {
  row["on"] = 1;
  return row;
}

TEST(Beside, SpeedUpsOfBothAndTheVerdict) {
  const TableReport report =
      make_table_report(table_of({"a", "b"}), measured({row("a", "ok", 30.0), row("b", "ok", 2.0)}),
                        article({printed("fast", 10.0, "b"), printed("slow", 100.0, "a")}));
  ASSERT_EQ(report.beside.size(), 2u);
  EXPECT_EQ(report.beside[0].printed.label, "fast"); // the article's order, not the table's
  EXPECT_DOUBLE_EQ(report.beside[0].printed_speedup, 10.0);
  EXPECT_DOUBLE_EQ(*report.beside[0].speedup, 15.0);
  EXPECT_EQ(report.beside[0].verdict.word, "reproduced");
  EXPECT_EQ(report.beside[1].verdict.word, "baseline");
  EXPECT_EQ(report.cells[1].label, "fast");
}

TEST(Beside, TimesAreOfTheArticlesOwnStart) {
  json line = row("b", "ok", 2.0);
  line["own_start"]["ms"] = 6.0;
  const TableReport report =
      make_table_report(table_of({"a", "b"}), measured({row("a", "ok", 30.0), line}),
                        article({printed("slow", 100.0, "a"), printed("fast", 10.0, "b")}));
  EXPECT_DOUBLE_EQ(*report.beside[1].speedup, 5.0);
  EXPECT_EQ(to_json(report)["beside"][1]["own_start_ms"], 6.0);
  line.erase("own_start");
  const TableReport without =
      make_table_report(table_of({"a", "b"}), measured({row("a", "ok", 30.0), line}),
                        article({printed("slow", 100.0, "a"), printed("fast", 10.0, "b")}));
  EXPECT_EQ(without.beside[1].verdict.word, "not comparable");
  EXPECT_EQ(without.beside[1].verdict.reasons.front(), "no run from the problem's own start");
}

TEST(Beside, IterationsAreComparedWhereRowsExecutedDifferentNumbers) {
  Published published = article({printed("slow", 100.0, "a"), printed("fast", 10.0, "b")});
  published.speedup_of = SpeedupOf::iteration;
  published.cells[0].iterations = 50;
  published.cells[1].iterations = 10;
  json fewer = row("b", "ok", 2.0);
  fewer["own_start"]["iterations"] = 5;
  const auto rows = measured({row("a", "ok", 30.0), fewer});
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
      table_of({"extra", "a"}), measured({row("extra", "ok", 3.0), row("a", "ok", 30.0)}),
      article({printed("slow", 100.0, "a")}));
  const std::string text = table_text(report, TableForm::full, TextStyle::markdown);
  EXPECT_LT(text.find("| slow "), text.find("| (not in the article) "));
  EXPECT_NE(text.find("| (not in the article) | extra f32 |"), std::string::npos);
  EXPECT_EQ(table_text(report, TableForm::compact, TextStyle::markdown).find("not in the article"),
            std::string::npos);
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

// The ledger on disk, and the tables that are made of its rows.
#include "datasets/errors.hpp"
#include "harness/cli/report.hpp"
#include "harness/run/ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;
using datasets::InputError;
using datasets::OutputError;
using nlohmann::json;

class LedgerOnDisk : public ::testing::Test {
protected:
  LedgerOnDisk() {
    std::string name = (fs::temp_directory_path() / "clusterbench-ledger-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~LedgerOnDisk() override { fs::remove_all(folder_); }

  std::string content() const {
    std::ifstream file(folder_ / "ledger.jsonl", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const {
    std::ofstream(folder_ / "ledger.jsonl", std::ios::binary) << text;
  }

  fs::path folder_;
};

template <typename Error, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

void expect_contains(const std::string& text, const std::string& piece) {
  EXPECT_NE(text.find(piece), std::string::npos) << text;
}

TEST_F(LedgerOnDisk, LinesComeBackInOrder) {
  const fs::path deeper = folder_ / "a" / "b";
  {
    Ledger ledger(deeper);
    ledger.append({{"type", "header"}, {"schema", 1}});
    ledger.append({{"type", "cell"}, {"value", 0.1}, {"text", "two\nlines"}});
  }
  { Ledger(deeper).append({{"type", "cell"}, {"value", 3}}); }
  const auto lines = read_ledger(deeper);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1].at("value"), 0.1);
  EXPECT_EQ(lines[1].at("text"), "two\nlines");
  EXPECT_EQ(lines[2].at("value"), 3);
  EXPECT_EQ(read_ledger(deeper / "ledger.jsonl"), lines);
}

TEST_F(LedgerOnDisk, GarbageDoesNotCostTheRow) {
  { Ledger(folder_).append({{"type", "cell"}, {"output_tail", "bytes \xff\xfe end"}}); }
  EXPECT_EQ(read_ledger(folder_).at(0).at("output_tail"), "bytes \xef\xbf\xbd\xef\xbf\xbd end");
}

TEST_F(LedgerOnDisk, ATornLastLineIsLeftOutAndCutOff) {
  write("{\"type\":\"header\"}\n{\"type\":\"cell\",\"a\":1}\n{\"type\":\"ce");
  EXPECT_EQ(read_ledger(folder_).size(), 2U);
  { Ledger(folder_).append({{"type", "cell"}, {"a", 2}}); }
  EXPECT_EQ(content(),
            "{\"type\":\"header\"}\n{\"type\":\"cell\",\"a\":1}\n{\"a\":2,\"type\":\"cell\"}\n");
  write("{\"torn\":");
  { const Ledger ledger(folder_); }
  EXPECT_EQ(content(), "");
}

TEST_F(LedgerOnDisk, ADamagedLineIsNamed) {
  write("{\"type\":\"header\"}\nnonsense\n{\"type\":\"cell\"}\n");
  expect_contains(message_of<InputError>([&] { read_ledger(folder_); }), "line 2");
  write("{\"type\":\"header\"}\n[1,2]\n");
  expect_contains(message_of<InputError>([&] { read_ledger(folder_); }), "line 2");
}

TEST_F(LedgerOnDisk, ANewerSchemaIsRefusedWithBothVersions) {
  write("{\"type\":\"header\",\"schema\":99}\n");
  const std::string message = message_of<InputError>([&] { read_ledger(folder_); });
  expect_contains(message, "schema 99");
  expect_contains(message, "up to " + std::to_string(kLedgerSchema));
}

TEST_F(LedgerOnDisk, AMissingOneIsNamed) {
  expect_contains(message_of<InputError>([&] { read_ledger(folder_ / "none"); }), "none");
}

TEST_F(LedgerOnDisk, OneCampaignAtATime) {
  {
    Ledger first(folder_);
    expect_contains(message_of<OutputError>([&] { Ledger second(folder_); }), "another campaign");
    first.append({{"a", 1}}); // undisturbed
  }
  const Ledger third(folder_); // the first is gone
  EXPECT_EQ(content(), "{\"a\":1}\n");
}

TEST_F(LedgerOnDisk, AFullDiskInTheMiddleOfALineTearsNothing) {
  Ledger ledger(folder_);
  ledger.append({{"a", 1}});
  const std::string before = content();
  // A limit on the size of files stands in for the disk: ten more bytes fit.
  rlimit unlimited{};
  getrlimit(RLIMIT_FSIZE, &unlimited);
  const rlimit full{before.size() + 10, unlimited.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &full);
  const std::string message = message_of<OutputError>([&] {
    ledger.append({{"a", std::string(1000, 'x')}});
  });
  setrlimit(RLIMIT_FSIZE, &unlimited);
  signal(SIGXFSZ, SIG_DFL);
  expect_contains(message, "ledger.jsonl: ");
  EXPECT_EQ(message.find("torn"), std::string::npos);
  EXPECT_EQ(content(), before);
  ledger.append({{"a", 2}});
  EXPECT_EQ(content(), before + "{\"a\":2}\n");
}

// ---- tables

json row(const std::string& variant, const std::string& status, double median, int round = 1) {
  json row = {{"type", "cell"},           {"table", "t"},   {"variant", variant},
              {"precision", "f32"},       {"round", round}, {"status", status},
              {"problem", {{"id", "p"}}}, {"message", ""}};
  if (status == "ok" || status == "wrong") {
    row.update({{"median_ms", median},
                {"mad_ms", 0.5},
                {"iterations", 10},
                {"ms_per_iteration", median / 10},
                {"oracle", "whole run"}});
  }
  return row;
}

Table table_of(const std::vector<std::string>& variants) {
  Table table;
  table.name = "t";
  table.title = "title";
  table.source = "source";
  table.notes = {"a note"};
  for (const std::string& variant : variants) {
    CellSpec& cell = table.cells.emplace_back();
    cell.table = "t";
    cell.problem_id = "p";
    cell.variant = variant;
  }
  return table;
}

/// The line of a variant, with runs of blanks made one.
std::string line_of(const std::string& text, const std::string& variant) {
  const auto at = text.find(" " + variant + " ");
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

TEST(Report, RoundsArePooledByTheirMedian) {
  const std::vector<json> rows = {row("a", "ok", 3.0, 1), row("a", "ok", 100.0, 2),
                                  row("a", "ok", 5.0, 3)};
  const std::string text = render_table(table_of({"a"}), rows, ReportStyle::markdown);
  EXPECT_EQ(line_of(text, "a"), "| p | a | f32 | 5 | 0.5 | 10 | 0.5 | | right |");
  expect_contains(text, "a note");
}

TEST(Report, AFailedRoundSpeaksForTheCell) {
  const std::vector<json> rows = {row("a", "ok", 3.0, 1), row("a", "wrong", 1.0, 2),
                                  row("b", "crashed", 0.0)};
  const std::string text = render_table(table_of({"a", "b", "c"}), rows, ReportStyle::markdown);
  EXPECT_EQ(line_of(text, "a"), "| p | a | f32 | | | | | | wrong |"); // and has no time, no rank
  EXPECT_EQ(line_of(text, "b"), "| p | b | f32 | | | | | | crashed |");
  EXPECT_EQ(line_of(text, "c"), "| p | c | f32 | | | | | | not run |");
}

TEST(Report, OfSeveralRowsOfOneRoundTheNewestCounts) {
  const std::vector<json> rows = {row("a", "crashed", 0.0), row("a", "ok", 2.0)};
  EXPECT_EQ(line_of(render_table(table_of({"a"}), rows, ReportStyle::markdown), "a"),
            "| p | a | f32 | 2 | 0.5 | 10 | 0.2 | | right |");
}

TEST(Report, RowsOfOtherTablesAreLeftOut) {
  json other = row("a", "ok", 2.0);
  other["table"] = "u";
  EXPECT_EQ(line_of(render_table(table_of({"a"}), {other}, ReportStyle::markdown), "a"),
            "| p | a | f32 | | | | | | not run |");
}

TEST(Report, VerificationSaysWhatWasChecked) {
  json steps = row("a", "ok", 2.0);
  steps["oracle"] = "single steps only";
  json early = row("b", "ok", 2.0);
  early["early_stop"] = true;
  const std::string text =
      render_table(table_of({"a", "b"}), {steps, early}, ReportStyle::markdown);
  expect_contains(line_of(text, "a"), "| right (single steps) |");
  expect_contains(line_of(text, "b"), "| right, stopped early |");
}

class Splice : public LedgerOnDisk {
protected:
  fs::path file(const std::string& text) const {
    std::ofstream(folder_ / "README.md") << text;
    return folder_ / "README.md";
  }
  std::string text() const {
    std::ifstream stream(folder_ / "README.md");
    return {std::istreambuf_iterator<char>(stream), {}};
  }
};

TEST_F(Splice, ReplacesWhatIsBetweenTheMarkers) {
  const auto path = file("a\n<!-- x begin -->\nold\nold\n<!-- x end -->\nb\n");
  splice(path, "x", "new\n");
  EXPECT_EQ(text(), "a\n<!-- x begin -->\nnew\n<!-- x end -->\nb\n");
  splice(path, "x", "");
  splice(path, "x", "newer\n"); // twice is once
  EXPECT_EQ(text(), "a\n<!-- x begin -->\nnewer\n<!-- x end -->\nb\n");
}

TEST_F(Splice, RefusesAFileWithoutMarkersAndLeavesIt) {
  for (const char* content : {"nothing\n", "<!-- x begin -->\nno end\n", "<!-- x end -->\n",
                              "<!-- x end -->\n<!-- x begin -->\n"}) {
    const auto path = file(content);
    expect_contains(message_of<InputError>([&] { splice(path, "x", "new\n"); }),
                    "<!-- x begin -->");
    EXPECT_EQ(text(), content);
  }
}

} // namespace
} // namespace clusterbench

// The ledger on disk, and generated text within pages.
#include "datasets/errors.hpp"
#include "harness/ledger/chain.hpp"
#include "harness/ledger/json_text.hpp"
#include "harness/report/splice.hpp"
#include "tests/unit/ledger_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
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
  void append(const std::vector<json>& lines) const {
    Ledger ledger(folder_);
    for (const json& line : lines) {
      ledger.append(line);
    }
  }
  void write(const std::string& text) const {
    std::ofstream(folder_ / "ledger.jsonl", std::ios::binary) << text;
  }

  fs::path folder_;
};

json row(const std::string& variant) {
  return made_up::row("t", variant, "crashed", made_up::problem({}));
}

/// The text of a row with times that is changed.
std::string changed(const std::function<void(json&)>& change) {
  json line = made_up::row("t", "x", "ok", made_up::problem({}));
  made_up::put_times(line, {3.0, 1.0}, 10);
  change(line);
  return line.dump();
}

template <typename Error, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

/// Of processor time, of which others that compute or write to the disk take nothing.
double seconds_since(std::clock_t begin) {
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

void expect_contains(const std::string& text, const std::string& piece) {
  EXPECT_NE(text.find(piece), std::string::npos) << text;
}

// ---- what is read

TEST_F(LedgerOnDisk, RowsComeBackInOrderWithTheirHeaders) {
  const fs::path deeper = folder_ / "a" / "b";
  json other = made_up::header("another processor", 8);
  {
    Ledger ledger(deeper);
    ledger.append(made_up::header());
    ledger.append(row("x"));
  }
  {
    Ledger ledger(deeper);
    ledger.append(other);
    ledger.append(row("y"));
  }
  const LedgerContent content = read_ledger(deeper);
  ASSERT_EQ(content.headers.size(), 2U);
  ASSERT_EQ(content.rows.size(), 2U);
  EXPECT_EQ(content.edited, "");
  EXPECT_EQ(content.rows[0].variant, "x");
  EXPECT_EQ(content.rows[0].header, content.headers[0]);
  EXPECT_EQ(content.rows[1].header->starts_seed, 8U);
  EXPECT_EQ(json(content.rows[1]), row("y")); // all of it, and nothing else
  EXPECT_EQ(read_ledger(deeper / "ledger.jsonl").rows.size(), 2U);
}

TEST_F(LedgerOnDisk, UnknownFieldsAreKept) {
  json line = row("x");
  line["of_tomorrow"] = {{"a", {1, "two\nlines \"quoted\" \\", nullptr}}};
  append({made_up::header(), line});
  const Row read = read_ledger(folder_).rows.at(0);
  EXPECT_EQ(json(read), line);
  EXPECT_EQ(read.field("of_tomorrow"), line.at("of_tomorrow"));
  EXPECT_EQ(read.field("of_yesterday"), json());
  EXPECT_EQ(read.number("round"), 1.0);
  EXPECT_EQ(read.number("status"), std::nullopt);
}

TEST_F(LedgerOnDisk, TypedFields) {
  json line = row("x");
  made_up::put_times(line, {3.0, 1.0, 2.0}, 10);
  line["message"] = "a \"word\"";
  line["warm_up_samples_ms"] = {9.0};
  line["unsandboxed"] = true;
  append({made_up::header(), line});
  const Row read = read_ledger(folder_).rows.at(0);
  EXPECT_EQ(read.message, "a \"word\"");
  EXPECT_EQ(read.samples_ms, (std::vector{3.0, 1.0, 2.0}));
  EXPECT_EQ(read.sample_starts, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(read.own_start->ms, 3.0);
  EXPECT_EQ(read.own_start->iterations, 10.0);
  ASSERT_EQ(read.whole.size(), 5U);
  EXPECT_EQ(read.whole[1].start, 1000001U);
  EXPECT_EQ(read.whole[1].ms - read.whole[1].run_ms, 1.0);
  EXPECT_EQ(read.warm_up_share(), 0.25);
  EXPECT_TRUE(read.unsandboxed);
}

TEST_F(LedgerOnDisk, GarbageDoesNotCostTheRow) {
  json line = row("x");
  line["output_tail"] = "bytes \xff\xfe end";
  append({made_up::header(), line});
  const LedgerContent content = read_ledger(folder_);
  EXPECT_EQ(content.rows.at(0).field("output_tail"), "bytes \xef\xbf\xbd\xef\xbf\xbd end");
  EXPECT_EQ(content.edited, "");
}

// Whatever a campaign measures, its ledger can be read.
TEST_F(LedgerOnDisk, WhatReadersWouldRefuseBecomesAnError) {
  append({made_up::header()});
  const auto header = std::make_shared<const Header>(made_up::header(), "made up");
  json deep = json::array();
  for (int level = 0; level < 70; ++level) {
    deep = json::array({deep});
  }
  const std::vector<std::pair<json, std::string>> odd = {
      {{{"phases_ms", {{"assign", INFINITY}}}}, "its row has an odd phases_ms: null is no number"},
      {{{"samples_ms", {1.0, NAN}}}, "its row has an odd samples_ms: null is no number"},
      {{{"samples_ms", json::array()},
        {"sample_starts", json::array()},
        {"sample_iterations", json::array()}},
       "its row is ok without a sample in samples_ms"},
      {{{"counters", 3}}, "its row has an odd counters: 3 is no object"},
      {{{"counters", {{"a", deep}}}}, "its row is nested more than 64 deep"}};
  for (const auto& [changes, why] : odd) {
    json line = made_up::row("t", "x", "ok", made_up::problem({}));
    made_up::put_times(line, {3.0, 1.0}, 10);
    line.update(changes);
    append({line, row("y")});
    const LedgerContent content = read_ledger(folder_);
    EXPECT_EQ(content.edited, "");
    ASSERT_GE(content.rows.size(), 2U);
    const Row& read = content.rows.at(content.rows.size() - 2);
    EXPECT_EQ(read.status, "error");
    EXPECT_EQ(read.message, why);
    EXPECT_EQ(read.key, "x 1");
    EXPECT_EQ(read.problem(), line.at("problem"));
    EXPECT_TRUE(read.samples_ms.empty());
    EXPECT_EQ(Row(line, header).text, read.text); // what the campaign goes on with
  }
}

TEST_F(LedgerOnDisk, ACellThatNobodyCouldTellIsNotWritten) {
  append({made_up::header(), row("x")});
  const std::string whole = content();
  json line = row("y");
  line.erase("key");
  EXPECT_THROW(append({line}), json_text::Malformed);
  EXPECT_EQ(content(), whole);
}

TEST_F(LedgerOnDisk, ATornLastLineMayBeLong) {
  append({made_up::header(), row("x")});
  const std::string whole = content();
  constexpr std::size_t kBlock = 1 << 16; // that are read at once
  for (const std::size_t length : {kBlock - 1, kBlock, kBlock + 1, 3 * kBlock, 1000 * kBlock}) {
    const std::clock_t begin = std::clock();
    write(whole + std::string(length, 'x'));
    append({});
    EXPECT_LT(seconds_since(begin), 5.0); // a byte at a time: 20
    EXPECT_EQ(content(), whole);
    write(std::string(length, 'x'));
    append({});
    EXPECT_EQ(content(), "");
  }
}

TEST_F(LedgerOnDisk, ALastLineMayBeLongOrFarInFrontOfTheEnd) {
  constexpr std::size_t kBlock = 1 << 16; // that are read at once
  for (const std::size_t length : {kBlock - 600, kBlock, 3 * kBlock}) {
    for (const std::size_t blanks : {std::size_t{0}, kBlock - 1, kBlock, 2 * kBlock + 1}) {
      write("");
      json line = row("x");
      line["output_tail"] = std::string(length, 'x');
      append({made_up::header(), line});
      write(content() + std::string(blanks, ' ') + "\n" + std::string(blanks, '\n'));
      append({row("y")});
      EXPECT_EQ(read_ledger(folder_).edited, "");
      EXPECT_EQ(read_ledger(folder_).rows.size(), 2U);
    }
  }
}

TEST_F(LedgerOnDisk, WhatIsNoFileIsToldAndLeft) {
  for (const char* name : {"ledger.jsonl", "lock"}) {
    const fs::path path = folder_ / name;
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    expect_contains(message_of<OutputError>([&] { const Ledger ledger(folder_); }),
                    std::string(name) + ": not a regular file");
    EXPECT_TRUE(fs::is_fifo(path));
    fs::remove(path);
  }
}

TEST_F(LedgerOnDisk, ATornLastLineIsLeftOutAndCutOff) {
  append({made_up::header(), row("x")});
  const std::string whole = content();
  append({row("y")});
  for (std::size_t length = whole.size() + 1; length + 1 < content().size(); length += 7) {
    write(content().substr(0, length));
    EXPECT_EQ(read_ledger(folder_).rows.size(), 1U);
    append({row("z")}); // in its place, and chained to the line before it
    const LedgerContent read = read_ledger(folder_);
    EXPECT_EQ(read.rows.back().variant, "z");
    EXPECT_EQ(read.edited, "");
  }
  write("{\"torn\":");
  { const Ledger ledger(folder_); }
  EXPECT_EQ(content(), "");
}

TEST_F(LedgerOnDisk, ADamagedLineIsNamed) {
  append({made_up::header()});
  const std::string head = content();
  for (const std::string& line :
       {std::string("nonsense"), std::string("[1,2]"), std::string("7"), std::string("{}"),
        std::string("{\"type\":\"sell\"}"), std::string("{\"type\":7}"),
        changed([](json& line) { line.erase("variant"); }), changed([](json& line) {
          line["samples_ms"] = {1.0, nullptr};
        }),
        changed([](json& line) { line["samples_ms"] = json::array(); }),
        changed([](json& line) { line["sample_starts"] = {1}; }),
        changed([](json& line) { line["fixed_work_us"] = {45.0}; }),
        changed([](json& line) { line["other_tasks"] = {0.0}; }),
        changed([](json& line) { line["round"] = "one"; }),
        changed([](json& line) { line["own_start"] = 3; }), changed([](json& line) {
          line["whole"] = {{{"ms", "long"}}};
        })}) {
    write("\n \t\r\n" + head + line + "\n" + line + "\n"); // blank lines are skipped and counted
    expect_contains(message_of<InputError>([&] { read_ledger(folder_); }), "ledger.jsonl: line 4 ");
  }
  write(row("x").dump() + "\n");
  expect_contains(message_of<InputError>([&] { read_ledger(folder_); }), "before any header");
}

TEST_F(LedgerOnDisk, OtherSchemasAreRefusedWithBothVersions) {
  json head = made_up::header();
  head["schema"] = 99;
  append({head});
  const std::string newer = message_of<InputError>([&] { read_ledger(folder_); });
  expect_contains(newer, "schema 99");
  expect_contains(newer, "up to 2");
  write("{\"type\":\"header\",\"schema\":1}\n");
  const std::string older = message_of<InputError>([&] { read_ledger(folder_); });
  expect_contains(older, "line 1 has schema 1, this program reads schema 2 alone");
  expect_contains(older, "measured again");
}

TEST_F(LedgerOnDisk, AMissingOneIsNamed) {
  expect_contains(message_of<InputError>([&] { read_ledger(folder_ / "none"); }), "none");
}

// ---- whether it is as it was written

TEST_F(LedgerOnDisk, AnEditedLineIsTold) {
  json line = row("x");
  made_up::put_times(line, {3.0}, 10);
  append({made_up::header(), line, row("y")});
  const std::string whole = content();
  const auto edited = [&](std::size_t from, std::size_t length, const std::string& by) {
    std::string text = whole;
    write(text.replace(from, length, by));
    return read_ledger(folder_).edited;
  };
  const std::size_t second = whole.find('\n') + 1;
  const std::size_t third = whole.find('\n', second) + 1;
  EXPECT_EQ(edited(0, 0, ""), "");
  expect_contains(edited(whole.find("3.0", second), 3, "1.0"), "edited: line 2 is not");
  expect_contains(edited(second, third - second, ""), "edited: line 2");    // taken out
  expect_contains(edited(0, 0, whole.substr(0, second)), "edited: line 2"); // put in
  expect_contains(edited(whole.find("\"chain\":\"", third) + 9, 8, "00000000"), "edited: line 3");
  expect_contains(edited(whole.find(",\"chain\"", third), std::string::npos, "}\n"),
                  "edited: line 3"); // none
}

TEST_F(LedgerOnDisk, ALineInAnotherFormIsNotEdited) {
  json line = row("x");
  made_up::put_times(line, {0.1, 1e-7, 123456789.25}, 10);
  append({made_up::header(), line, row("y")});
  std::istringstream lines(content());
  std::string spaced;
  for (std::string text; std::getline(lines, text);) {
    std::string form = json::parse(text).dump(1, ' ', /*ensure_ascii=*/true);
    std::ranges::replace(form, '\n', ' ');
    spaced += form + "\n";
  }
  write(spaced);
  EXPECT_EQ(read_ledger(folder_).edited, "");
  append({row("z")}); // goes on where the other form ends
  EXPECT_EQ(read_ledger(folder_).edited, "");
}

TEST_F(LedgerOnDisk, AnEnvironmentThatIsNotItsHashIsTold) {
  json head = made_up::header();
  head["provenance"]["cpu"]["model"] = "a faster processor";
  append({head, row("x")}); // chained by whoever wrote it
  expect_contains(read_ledger(folder_).edited, "line 1 has another environment than its hash");
}

TEST_F(LedgerOnDisk, TwentyThousandRowsAreReadAtOnce) {
  json line = row("x");
  std::vector<double> samples(50);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = 1.0 + 1e-9 / static_cast<double>(i + 1);
  }
  made_up::put_times(line, samples, 10);
  line["gbench_context"] = {{"text", std::string(2000, 'x')}};
  {
    std::string body = made_up::header().dump();
    std::string chain = chain_after("", body);
    std::string text = with_chain(body, chain) + "\n";
    for (int i = 1; i <= 20000; ++i) {
      line["round"] = i;
      body = line.dump();
      chain = chain_after(chain, body);
      text += with_chain(body, chain) + "\n";
    }
    write(text);
  }
  const std::clock_t begin = std::clock();
  const Measurements measurements = read_measurements({folder_.string()});
  const double seconds = seconds_since(begin);
  EXPECT_TRUE(measurements.edited.empty());
  EXPECT_EQ(measurements.cells.at(0).rounds.size(), 20000U);
  EXPECT_LT(seconds, 10.0); // a fraction of one mostly
  RecordProperty("seconds", std::to_string(seconds));
}

// ---- how it is written

TEST_F(LedgerOnDisk, OneCampaignAtATime) {
  {
    Ledger first(folder_);
    expect_contains(message_of<OutputError>([&] { Ledger second(folder_); }), "another campaign");
    first.append({{"a", 1}}); // undisturbed
  }
  const Ledger third(folder_); // the first is gone
  EXPECT_EQ(content(), with_chain("{\"a\":1}", chain_after("", "{\"a\":1}")) + "\n");
}

TEST_F(LedgerOnDisk, OneCampaignAtATimeWhateverBecomesOfTheLock) {
  Ledger first(folder_);
  fs::remove(folder_ / "lock");
  fs::create_directory(folder_ / "other");
  fs::create_symlink("../ledger.jsonl", folder_ / "other" / "ledger.jsonl");
  for (const fs::path& folder : {folder_, folder_ / "other"}) {
    expect_contains(message_of<OutputError>([&] { Ledger second(folder); }), "another campaign");
  }
  first.append({{"a", 1}}); // undisturbed
}

TEST_F(LedgerOnDisk, AnotherProgramsChangeIsTold) {
  const fs::path path = folder_ / "ledger.jsonl";
  const std::vector<std::function<void()>> harms = {
      [&] { fs::remove(path); }, [&] { fs::resize_file(path, 3); },
      [&] { std::ofstream(path, std::ios::app) << "more\n"; },
      [&] {
        fs::copy_file(path, folder_ / "copy");
        fs::rename(folder_ / "copy", path);
      }};
  for (const auto& harm : harms) {
    fs::remove(path);
    Ledger ledger(folder_);
    ledger.append({{"a", 1}});
    EXPECT_NO_THROW(ledger.check_undisturbed());
    harm();
    const std::string before = content();
    expect_contains(message_of<OutputError>([&] { ledger.check_undisturbed(); }),
                    "ledger.jsonl: it was replaced, removed or cut by another program");
    EXPECT_THROW(ledger.append({{"a", 2}}), OutputError);
    EXPECT_EQ(content(), before);
  }
}

TEST_F(LedgerOnDisk, ACampaignGoesOnBehindBlankLines) {
  for (const char* blank : {"\n", "\n \t\n", "\r\n\r\n"}) {
    write("");
    append({made_up::header(), row("x")});
    write(content() + blank);
    append({row("y")});
    EXPECT_EQ(read_ledger(folder_).edited, "");
    EXPECT_EQ(read_ledger(folder_).rows.size(), 2U);
  }
  write("\n\n"); // and where there is nothing else
  append({made_up::header()});
  EXPECT_EQ(read_ledger(folder_).edited, "");
}

TEST_F(LedgerOnDisk, LedgersBelowAreNoFolders) {
  fs::create_directories(folder_ / "a" / "ledger.jsonl");
  const std::string folder = folder_.string();
  expect_contains(message_of<InputError>([&] { ledgers_below({folder}); }), "holds no ledger");
  std::ofstream(folder_ / "a" / "ledger.jsonl" / "ledger-2.jsonl") << "\n";
  EXPECT_EQ(ledgers_below({folder}),
            std::vector{(folder_ / "a" / "ledger.jsonl" / "ledger-2.jsonl").string()});
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
  ledger.append({{"a", 2}}); // chained to the line that is there
  const std::string chain = take_apart(before.substr(0, before.size() - 1)).chain;
  EXPECT_EQ(content(), before + with_chain("{\"a\":2}", chain_after(chain, "{\"a\":2}")) + "\n");
}

// ---- splicing

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

// The ledger on disk, and generated text within pages.
#include "datasets/errors.hpp"
#include "harness/report/splice.hpp"
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

TEST_F(LedgerOnDisk, BlankLinesAreSkippedAndCounted) {
  write("\n{\"type\": \"header\"}\n \t\r\n\n{\"type\": \"cell\"}\nno JSON\n\n");
  std::size_t cells = 0;
  const std::string message = message_of<InputError>([&] {
    for_each_line(folder_, [&](json& line) { cells += line.at("type") == "cell" ? 1 : 0; });
  });
  EXPECT_EQ(cells, 1U);
  expect_contains(message, "line 6 is not JSON");
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

TEST_F(LedgerOnDisk, AFieldThatAReaderMissesIsNamedWithItsLine) {
  write("{\"type\":\"header\"}\n{\"type\":\"cell\",\"a\":1}\n{\"type\":\"cell\"}\n");
  int sum = 0;
  const std::string message = message_of<InputError>([&] {
    for_each_line(folder_, [&](const nlohmann::json& line) {
      sum += line.at("type") == "cell" ? line.at("a").get<int>() : 0;
    });
  });
  EXPECT_EQ(sum, 1);
  expect_contains(message, "ledger.jsonl: line 3");
  expect_contains(message, "'a'");
}

TEST_F(LedgerOnDisk, WhatNoReaderCouldUseIsRefused) {
  for (const char* line :
       {"{}", "{\"type\":\"sell\"}", "{\"type\":7}", "{\"type\":\"cell\",\"schema\":\"new\"}",
        "{\"type\":\"cell\",\"samples_ms\":[]}", "{\"type\":\"cell\",\"samples_ms\":[1,null]}"}) {
    write(std::string("{\"type\":\"header\"}\n") + line + "\n");
    expect_contains(message_of<InputError>([&] { read_ledger(folder_); }), "line 2");
  }
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

// Reading and writing points: what must be read, what must be refused and in which words.
#include "datasets/decimal.hpp"
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "datasets/output_file.hpp"
#include "datasets/readers.hpp"
#include "datasets/sha256.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench::datasets {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for every test, removed afterwards.
class Readers : public ::testing::Test {
protected:
  Readers() {
    std::string name = (fs::temp_directory_path() / "clusterbench-readers-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Readers() override { fs::remove_all(folder_); }

  fs::path file(const std::string& name, std::string_view content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

/// The message of the InputError that `action` throws.
template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "(not refused)";
}

#define EXPECT_REFUSED(action, part)                                                               \
  EXPECT_NE(refusal([&] { action; }).find(part), std::string::npos) << refusal([&] { action; })

std::string npy(int version, std::string header, std::string_view data) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  header += '\n';
  for (std::size_t i = 0, size = header.size(); i < (version == 1 ? 2u : 4u); ++i, size >>= 8)
    out += static_cast<char>(size & 0xff);
  return out + header + std::string(data);
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}

std::vector<double> values(const Array& array) {
  if (array.type() == ElementType::f64)
    return {array.f64().begin(), array.f64().end()};
  return {array.f32().begin(), array.f32().end()};
}

Array parse(std::string_view text, bool labelled = false) {
  return parse_csv(text, "a.csv", {.last_column_is_label = labelled});
}

using Values = std::vector<double>;
using Labels = std::vector<std::int64_t>;

// ---- .npy

constexpr const char* kHeader = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";

TEST_F(Readers, NpyRoundTrip) {
  const std::vector<double> doubles{1, -2, 3.5, 4, 5, 1e-300};
  const std::vector<float> floats{1, 2, 3, 4.25f};
  write_npy(folder_ / "d.npy", std::span(doubles), {2, 3});
  write_npy(folder_ / "f.npy", std::span(floats), {4, 1});
  const Array d = read_file(folder_ / "d.npy");
  EXPECT_EQ(d.rows(), 2u);
  EXPECT_EQ(d.cols(), 3u);
  EXPECT_EQ(d.type(), ElementType::f64);
  EXPECT_EQ(values(d), doubles);
  const Array f = read_npy(folder_ / "f.npy");
  EXPECT_EQ(f.type(), ElementType::f32);
  EXPECT_EQ(values(f), (Values{1, 2, 3, 4.25}));
  EXPECT_EQ(files(), 2u); // no temporary file is left
}

TEST_F(Readers, NpyHeaderIsAlignedTo64Bytes) {
  const std::vector<std::int32_t> labels{1, 2, 3};
  write_npy(folder_ / "l.npy", std::span(labels), {3});
  std::string content(fs::file_size(folder_ / "l.npy"), '\0');
  std::ifstream(folder_ / "l.npy")
      .read(content.data(), static_cast<std::streamsize>(content.size()));
  EXPECT_EQ((content.size() - 12) % 64, 0u);
  EXPECT_NE(content.find("'descr': '<i4'"), std::string::npos);
  EXPECT_NE(content.find("'shape': (3,)"), std::string::npos);
}

TEST_F(Readers, NpyEveryVersionAndOrder) {
  const std::string data = raw({1.0, 2.0, 3.0, 4.0, 5.0, 6.0});
  for (const int version : {1, 2, 3})
    EXPECT_EQ(values(read_npy(file("v.npy", npy(version, kHeader, data)))),
              (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(values(read_npy(file("f.npy", npy(1,
                                              "{'descr': '<f8', 'fortran_order': True, "
                                              "'shape': (2, 3), }",
                                              data)))),
            (Values{1, 3, 5, 2, 4, 6}));
  std::string swapped = raw({1.5f, -2.0f});
  std::reverse(swapped.begin(), swapped.begin() + 4);
  std::reverse(swapped.begin() + 4, swapped.end());
  EXPECT_EQ(values(read_npy(file("b.npy", npy(2,
                                              "{\"shape\":(2L,),\"fortran_order\":True,"
                                              "\"descr\":\">f4\"}",
                                              swapped)))),
            (Values{1.5, -2}));
}

TEST_F(Readers, NpyFortranOrderBeyondOneBand) {
  constexpr std::size_t kRows = 150;
  std::vector<double> columns(kRows * 2);
  for (std::size_t i = 0; i < columns.size(); ++i)
    columns[i] = static_cast<double>(i);
  const std::string data(reinterpret_cast<const char*>(columns.data()), columns.size() * 8);
  const Array array = read_npy(
      file("f.npy", npy(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (150, 2), }", data)));
  for (std::size_t i = 0; i < kRows; ++i) {
    EXPECT_EQ(array.f64()[2 * i], static_cast<double>(i));
    EXPECT_EQ(array.f64()[2 * i + 1], static_cast<double>(kRows + i));
  }
}

TEST_F(Readers, NpyMisalignedDataIsCopied) {
  for (int padding = 0; padding < 8; ++padding) {
    const auto path =
        file("m.npy", npy(1, kHeader + std::string(static_cast<std::size_t>(padding), ' '),
                          raw({1.0, 2.0, 3.0, 4.0, 5.0, 6.0})));
    const Array array = read_npy(path);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.f64().data()) % alignof(double), 0u);
    EXPECT_EQ(values(array), (Values{1, 2, 3, 4, 5, 6}));
  }
}

TEST_F(Readers, NpyRefusesTruncationWithBothSizes) {
  EXPECT_REFUSED(read_npy(file("t.npy", npy(1, kHeader, raw({1.0, 2.0})))),
                 "t.npy: truncated: shape (2, 3) of <f8 needs 48 bytes of data, 16 found");
  EXPECT_REFUSED(read_npy(file("t.npy", npy(1, kHeader, std::string(56, 'x')))), "too long");
  const std::string whole = npy(1, kHeader, raw({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(read_npy(file("t.npy", std::string_view(whole).substr(0, length))), InputError)
        << length;
}

TEST_F(Readers, NpyRefusesAnotherDtypeOrShape) {
  const auto with = [&](std::string header) { return read_npy(file("x.npy", npy(1, header, ""))); };
  EXPECT_REFUSED(with("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 3), }"),
                 "wrong dtype '<i8'");
  EXPECT_REFUSED(with("{'descr': '<f2', 'fortran_order': False, 'shape': (0, 3), }"),
                 "wrong dtype");
  EXPECT_REFUSED(with("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (0,), }"),
                 "structured dtype");
  EXPECT_REFUSED(with("{'descr': '<f8', 'fortran_order': False, 'shape': (), }"), "wrong shape ()");
  EXPECT_REFUSED(with("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1, 2), }"),
                 "wrong shape (0, 1, 2)");
}

TEST_F(Readers, NpyRefusesABadHeader) {
  for (const char* header :
       {"", "{", "{}", "[]", "{'descr': '<f8'}", "{'descr': '<f8', 'fortran_order': False}",
        "{'descr' '<f8'}", "{'descr': '<f8", "{'descr': '<f8', 'fortran_order': Maybe, }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2 3), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3), } more",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3), 'more': 1}"})
    EXPECT_REFUSED(read_npy(file("h.npy", npy(1, header, ""))), "bad .npy header");
  EXPECT_REFUSED(read_npy(file("h.npy", npy(4, kHeader, ""))), "format version 4");
  EXPECT_REFUSED(read_npy(file("h.npy", "PK\x03\x04 a zip archive")), "not a .npy file");
}

TEST_F(Readers, NpyRefusesAHeaderThatClaimsMoreThanMemory) {
  for (const char* shape : {"(1000000000000, 1000000)", "(18446744073709551615, 2)",
                            "(4294967296, 4294967296)", "(99999999999999999999999, 1)"}) {
    const std::string header =
        std::string("{'descr': '<f8', 'fortran_order': False, 'shape': ") + shape + ", }";
    EXPECT_THROW(read_npy(file("m.npy", npy(1, header, raw({1.0})))), InputError) << shape;
  }
  // A sparse file that is as large as it says, but must be copied: more than memory.
  const std::string header =
      "{'descr': '>f8', 'fortran_order': False, 'shape': (1099511627776, 1), }";
  const auto path = file("s.npy", npy(1, header, ""));
  std::error_code unsupported;
  fs::resize_file(path, fs::file_size(path) + (std::uintmax_t{1} << 43), unsupported);
  if (!unsupported) {
    EXPECT_REFUSED(read_npy(path), "memory");
  }
}

TEST_F(Readers, WriteRefusesAShapeThatDoesNotFit) {
  const std::vector<double> three{1, 2, 3};
  EXPECT_THROW(write_npy(folder_ / "x.npy", std::span(three), {2, 2}), std::invalid_argument);
  EXPECT_EQ(files(), 0u);
}

TEST_F(Readers, UnwritableOutput) {
  const std::vector<double> one{1};
  EXPECT_THROW(write_npy(folder_ / "no" / "x.npy", std::span(one), {1}), OutputError);
  EXPECT_THROW(write_npy(folder_, std::span(one), {1}), OutputError);
  EXPECT_THROW(write_npy("/proc/x.npy", std::span(one), {1}), OutputError);
  EXPECT_THROW(write_npy("/dev/full", std::span(one), {1}), OutputError);
  EXPECT_TRUE(fs::is_character_file("/dev/full")); // written to, not replaced
  EXPECT_EQ(files(), 0u);
}

TEST_F(Readers, AFullDiskLeavesTheOldFileAndNothingElse) {
  const std::vector<double> old{1, 2};
  const std::vector<double> large(1 << 17, 3.0); // 1 MiB
  const auto path = folder_ / "x.npy";
  write_npy(path, std::span(old), {2});
  const pid_t child = ::fork(); // the limit would hold for the rest of this process
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN); // so that write() fails instead
    const rlimit limit{1 << 16, 1 << 16};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_npy(path, std::span(large), {large.size()});
    } catch (const OutputError&) {
      ::_exit(74);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 74);
  EXPECT_EQ(values(read_npy(path)), old);
  EXPECT_EQ(files(), 1u);
}

TEST_F(Readers, WritingThroughALinkKeepsTheLink) {
  const std::vector<double> one{1};
  write_npy(folder_ / "target.npy", std::span(one), {1});
  fs::create_symlink(folder_ / "target.npy", folder_ / "link.npy");
  const std::vector<double> two{2};
  write_npy(folder_ / "link.npy", std::span(two), {1});
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.npy"));
  EXPECT_EQ(values(read_npy(folder_ / "target.npy")), two);
}

// ---- .csv

void expect_same_as_from_chars(const std::string& text) {
  double expected = 0;
  double found = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, expected);
  const char* const ours = parse_decimal(text.data(), end, found);
  if (error != std::errc())
    ASSERT_EQ(ours, nullptr) << text;
  else
    ASSERT_TRUE(ours == stop &&
                std::bit_cast<std::uint64_t>(found) == std::bit_cast<std::uint64_t>(expected))
        << text;
}

TEST(Csv, EveryDelimiter) {
  for (const char* text : {"1,2\n3,4\n", "1;2\n3;4\n", "1\t2\n3\t4\n", "1|2\n3|4\n", "1 2\n3 4\n",
                           "  1    2 \n\t3 \t 4", "1, 2\r\n3, 4\r\n", "+1,2e0\n3.0,+4.00",
                           "\xef\xbb\xbf"
                           "1,2\n3,4",
                           "\n\n1,2\n\n \n3,4\n\n", "# a comment\n1,2\n# another\n3,4\n"}) {
    const Array array = parse(text);
    EXPECT_EQ(array.cols(), 2u) << text;
    EXPECT_EQ(values(array), (Values{1, 2, 3, 4})) << text;
  }
}

TEST(Csv, HeaderIsOptional) {
  EXPECT_EQ(values(parse("x,y\n1,2\n")), (Values{1, 2}));
  EXPECT_EQ(values(parse("\"length (cm; about)\",width\n1,2\n")), (Values{1, 2}));
  EXPECT_EQ(values(parse("x\n1\n2")), (Values{1, 2}));
  EXPECT_EQ(parse("1,2\n3,4").rows(), 2u);
}

TEST(Csv, OneColumnAndOneRow) {
  EXPECT_EQ(parse("1\n2\n3\n").rows(), 3u);
  const Array row = parse("1,2,3");
  EXPECT_EQ(row.rows(), 1u);
  EXPECT_EQ(row.cols(), 3u);
}

TEST(Csv, Labels) {
  const Array whole = parse("a,b,class\n1,2,7\n3,4,-1\n", true);
  EXPECT_EQ(values(whole), (Values{1, 2, 3, 4}));
  EXPECT_EQ(*whole.labels, (Labels{7, -1}));
  const Array words = parse("1,2,setosa\n3,4,virginica\n5,6,setosa\n", true);
  EXPECT_EQ(*words.labels, (Labels{0, 1, 0}));
  EXPECT_FALSE(parse("1,2\n").labels.has_value());
  EXPECT_REFUSED(parse("1\n2\n", true), "only one column");
}

TEST(Csv, NumbersToTheLastBit) {
  EXPECT_EQ(values(parse("0.1,-1.7976931348623157e308,5e-324,1e-400,123456789.123456789")),
            (Values{0.1, -1.7976931348623157e308, 5e-324, 0.0, 123456789.123456789}));
}

TEST(Csv, EveryNumberIsTheOneOfFromChars) {
  // parse_decimal's short way against the library, from every number of digits and many exponents.
  std::mt19937_64 random(1);
  for (int i = 0; i < 300000; ++i) {
    std::string text(random() % 2, '-');
    for (std::uint64_t digits = random() % 21; digits-- > 0;)
      text += static_cast<char>('0' + random() % 10);
    text.append(random() % 2, '.');
    for (std::uint64_t digits = random() % 12; digits-- > 0;)
      text += static_cast<char>('0' + random() % 10);
    if (random() % 2 == 0)
      text.append("e").append(std::to_string(static_cast<int>(random() % 70) - 35));
    expect_same_as_from_chars(text);
  }
  // Halfway between two doubles, and a little beside: where rounding twice would go wrong.
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t middle = ((std::uint64_t{1} << 53) + random() % (1u << 30)) * 2 + 1;
    expect_same_as_from_chars(std::to_string(middle));
    expect_same_as_from_chars(std::to_string(middle * 512));
    expect_same_as_from_chars(std::to_string(middle * 512 + 1));
    expect_same_as_from_chars(std::to_string(middle * 512 - 1));
    expect_same_as_from_chars(std::to_string(middle) + "e" + std::to_string(random() % 20));
  }
  for (const char* text :
       {"", "-", ".", "e5", "1e", "1e+", "-.5", "5.", "1e5x", "0e99999", "1e-99999", "1e400", "nan",
        "inf", "-inf", "00000000000000000000001", "1 2"})
    expect_same_as_from_chars(text);
}

TEST(Csv, RefusesWithLineAndColumn) {
  EXPECT_REFUSED(parse("1,2\n3,x\n"), "a.csv: line 2, column 2: 'x' is not a number");
  EXPECT_REFUSED(parse("# c\n\nx,y\n1,2\n3,4z\n"), "line 5, column 2: '4z' is not a number");
  EXPECT_REFUSED(parse("1,2\n3\n"), "line 2, column 2: 1 fields, 2 expected");
  EXPECT_REFUSED(parse("1,2\n3,4,5\n"), "line 2, column 3: 3 fields, 2 expected");
  EXPECT_REFUSED(parse("1,2\n3,\n"), "line 2, column 2: an empty field");
  EXPECT_REFUSED(parse("1,2\n,4\n"), "line 2, column 1: an empty field");
  EXPECT_REFUSED(parse("1,x\n3,4\n"), "line 1, column 2");
  EXPECT_REFUSED(parse("1,2\n3,1e999\n"), "line 2, column 2: '1e999' is beyond float64");
  EXPECT_REFUSED(parse("1,2\n3,0x10\n"), "column 2");
  EXPECT_REFUSED(parse("1,2\n+-3,4\n"), "column 1");
  EXPECT_REFUSED(parse("1,2,3\n4\n"), "line 2, column 2: 1 fields, 3 expected");
  EXPECT_REFUSED(parse("1 2\n3 4 5\n"), "line 2, column 3: 3 fields, 2 expected");
  EXPECT_REFUSED(parse("1;2\n1,5;2\n"), "'1,5' is not a number");
}

TEST(Csv, RefusesWhatHasNoPoints) {
  for (const char* text : {"", "\n\n", "# only\n# comments\n", "x,y\n", "x,y\n\n# end\n"})
    EXPECT_REFUSED(parse(text), "no points");
}

TEST(Csv, ManyChunksAreReadInOrderAndErrorsCountAllLines) {
  // 12 MB, so that several chunks of 4 MiB are parsed at once.
  constexpr std::size_t kRows = 600000;
  std::string text = "first,second\n";
  for (std::size_t i = 0; i < kRows; ++i) {
    text += std::to_string(i) + ",0.2500000000\n";
    text += i % 1000 == 0 ? "\n" : "";
  }
  const Array array = parse(text);
  ASSERT_EQ(array.rows(), kRows);
  for (std::size_t i = 0; i < kRows; ++i)
    ASSERT_EQ(array.f64()[2 * i], static_cast<double>(i));
  // Two errors in different chunks: the first is reported.
  const std::size_t lines_before = 1 + 300000 + 300; // header, rows, blank lines
  std::string bad = text;
  bad[bad.find("\n300000,") + 8] = '?';
  bad[bad.find("\n500000,") + 8] = '!';
  EXPECT_REFUSED(parse(bad), "line " + std::to_string(lines_before + 1) + ", column 2");
}

// ---- .fvecs, .bvecs, and any file

TEST_F(Readers, Vecs) {
  const Array f = read_file(file("x.fvecs", raw<std::int32_t>({2}) + raw({1.0f, 2.0f}) +
                                                raw<std::int32_t>({2}) + raw({3.0f, -4.5f})));
  EXPECT_EQ(f.type(), ElementType::f32);
  EXPECT_EQ(f.cols(), 2u);
  EXPECT_EQ(values(f), (Values{1, 2, 3, -4.5}));
  const Array b =
      read_file(file("x.bvecs", raw<std::int32_t>({3}) + raw<std::uint8_t>({1, 2, 255})));
  EXPECT_EQ(values(b), (Values{1, 2, 255}));
}

TEST_F(Readers, VecsRefusals) {
  EXPECT_REFUSED(read_file(file("x.fvecs", raw<std::int32_t>({2}) + raw({1.0f}))),
                 "12 bytes expected for 1 vectors, 8 found");
  EXPECT_REFUSED(read_file(file("x.fvecs", "ab")), "4 bytes expected, 2 found");
  EXPECT_REFUSED(read_file(file("x.fvecs", raw<std::int32_t>({-1, 0}))), "dimension -1");
  EXPECT_REFUSED(read_file(file("x.fvecs", raw<std::int32_t>({1, 0, 2, 0}))),
                 "vector 1 has dimension 2, the first has 1");
}

TEST_F(Readers, OtherFilesAreRefused) {
  EXPECT_REFUSED(read_file(folder_ / "missing.npy"), "No such file");
  EXPECT_REFUSED(read_file(file("x.txt", "1,2")), "the extension must be");
  EXPECT_REFUSED(read_file(file("x.npy", "1,2"), {.last_column_is_label = true}), "label column");
  fs::create_directory(folder_ / "folder.npy");
  EXPECT_REFUSED(read_file(folder_ / "folder.npy"), "not a regular file");
  ASSERT_EQ(::mkfifo((folder_ / "pipe.csv").c_str(), 0600), 0);
  EXPECT_REFUSED(read_file(folder_ / "pipe.csv"), "not a regular file");
}

TEST_F(Readers, CheckPointsNamesTheFirstBadValue) {
  EXPECT_REFUSED(check_points(parse("1,2\n3,nan\ninf,4\n"), "a.csv"),
                 "a.csv: nan at row 1, column 1");
  EXPECT_REFUSED(check_points(parse("1,2\n-inf,4\n")), "-inf at row 1, column 0");
  EXPECT_NO_THROW(check_points(parse("1,2\n3,4\n")));
  EXPECT_REFUSED(check_points(read_file(file("e.fvecs", ""))), "n = 0");
  EXPECT_REFUSED(
      check_points(read_npy(file(
          "e.npy", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", "")))),
      "n = 0");
  EXPECT_REFUSED(
      check_points(read_npy(file(
          "e.npy", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0), }", "")))),
      "d = 0");
  const std::string nan = raw({1.0f, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_REFUSED(
      check_points(read_npy(file(
          "n.npy", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", nan)))),
      "nan at row 0, column 1");
}

TEST_F(Readers, Sha256) {
  // FIPS 180-2, appendix B.1
  const std::string abc = "abc";
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(abc))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_file(file("abc", abc)), sha256_hex(std::as_bytes(std::span(abc))));
}

TEST_F(Readers, OutputFileWithoutCommitLeavesNothing) {
  {
    OutputFile output(folder_ / "x");
    output.write(std::as_bytes(std::span("half")));
    EXPECT_FALSE(fs::exists(folder_ / "x"));
    EXPECT_EQ(files(), 1u);
  }
  EXPECT_EQ(files(), 0u);
}

} // namespace
} // namespace clusterbench::datasets

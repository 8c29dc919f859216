// .csv files: what must be read, what must be refused and in which words.
#include "datasets/decimal.hpp"
#include "tests/unit/reader_files.hpp"

#include <bit>
#include <charconv>
#include <random>

namespace clusterbench::datasets {
namespace {

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

TEST(Csv, ARowIsFoundAgain) {
  const auto line = [](std::string_view text, std::size_t row) {
    return csv_line_of_row(text, "a.csv", row);
  };
  EXPECT_EQ(line("1\n2\n3\n", 0), 1u);
  EXPECT_EQ(line("1\n2\n3", 2), 3u);
  EXPECT_EQ(line("x\n1\n\n# none\n2\n3\n", 0), 2u);
  EXPECT_EQ(line("x\n1\n\n# none\n2\n3\n", 1), 5u);
  EXPECT_EQ(line("\xef\xbb\xbf\n\n1,2\r\n3,4\r\n", 1), 4u);
  EXPECT_EQ(line("x\r1\r2\r", 1), 3u);
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

TEST(Csv, QuotedFields) {
  EXPECT_EQ(values(parse("\"1.5\",\"2\"\n\"3\",4\n")), (Values{1.5, 2, 3, 4}));
  EXPECT_EQ(values(parse("\"x\",\"y\"\n\"1\" , \"2\"\n")), (Values{1, 2}));
  EXPECT_EQ(values(parse("\"1\" \"2\"\n3 4\n")), (Values{1, 2, 3, 4}));
  EXPECT_EQ(values(parse("\"1\"\t\" 2 \"\n")).size(), 2u) << "blanks within quotes";
  const Array words = parse("1,\"a, or b\"\n2,c\n3,\"c\"\n4,\"say \"\"a, b\"\"\"\n", true);
  EXPECT_EQ(values(words), (Values{1, 2, 3, 4}));
  EXPECT_EQ(*words.labels, (Labels{0, 1, 1, 2}));
  EXPECT_REFUSED(parse("1,2\n\"3,4\n"), "line 2, column 1: '\"3' is not a number");
  EXPECT_REFUSED(parse("1,2\n\"3,4\",5\n"), "line 2, column 1: '3,4' is not a number");
  EXPECT_REFUSED(parse("1,2\n\"3\"x,4\n"), "line 2, column 1: '\"3\"x' is not a number");
}

TEST(Csv, AnEmptyLastColumnInEveryRowIsNone) {
  for (const char* text : {"1,2,\n3,4,\n", "a,b,\n1,2,\n3,4,", "a,b\n1,2, \n3,4,\r\n",
                           "1;2;;\n3;4;;\n", "1,2,\n# a comment\n\n3,4,\n"}) {
    const Array array = parse(text);
    EXPECT_EQ(array.cols(), 2u) << text;
    EXPECT_EQ(values(array), (Values{1, 2, 3, 4})) << text;
  }
  const Array labelled = parse("1,a,\n2,b,\n", true);
  EXPECT_EQ(values(labelled), (Values{1, 2}));
  EXPECT_EQ(*labelled.labels, (Labels{0, 1}));
  // Not in every row: then something is missing.
  EXPECT_REFUSED(parse("1,2,\n3,4,5\n"), "line 1, column 3: an empty field");
  EXPECT_REFUSED(parse("1,2,5\n3,4,\n"), "line 2, column 3: an empty field");
  EXPECT_REFUSED(parse("1,2,\n3,4\n"), "line 1, column 3: an empty field");
}

TEST(Csv, EveryEndOfLine) {
  for (const char* text :
       {"x,y\r1,2\r3,4\r", "x,y\r1,2\r\r# a comment\r3,4", "x,y\r\n1,2\r\n3,4\r\n",
        "\xef\xbb\xbfx,y\r1,2\r3,4", "\xef\xbb\xbf\"x\",\"y\"\r\n1,2\r\n3,4"}) {
    const Array array = parse(text);
    EXPECT_EQ(array.cols(), 2u) << text;
    EXPECT_EQ(values(array), (Values{1, 2, 3, 4})) << text;
  }
  EXPECT_REFUSED(parse("1,2\r3,x\r"), "a.csv: line 2, column 2: 'x' is not a number");
  EXPECT_REFUSED(parse("1,2\n3,4\r5,6\n"), "line 2, column 2: '4\\x0d5' is not a number");
}

TEST(Csv, RefusesWhatIsNoText) {
  using namespace std::string_view_literals;
  EXPECT_REFUSED(parse("\xff\xfe\x31\0,\0\x32\0\n\0"sv), "a.csv: line 1 begins as UTF-16 does");
  EXPECT_REFUSED(parse("\xfe\xff\0\x31\0,\0\x32\0\n"sv), "a.csv: line 1 begins as UTF-16 does");
  EXPECT_REFUSED(parse("1\0,\0\x32\0\n\0"sv), "a.csv: line 1 holds a NUL byte");
  EXPECT_REFUSED(parse("1,2\n3,4\n5,\0\n"sv), "a.csv: line 3 holds a NUL byte");
  EXPECT_REFUSED(parse("x\0,y\n3,4\n"sv), "a.csv: line 1 holds a NUL byte");
  EXPECT_REFUSED(parse("# \0\n"sv), "save it as UTF-8");
  EXPECT_REFUSED(parse("1,2\n3,\x07\x1b[0m\n"), "'\\x07\\x1b[0m' is not a number");
}

} // namespace
} // namespace clusterbench::datasets

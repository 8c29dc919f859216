// .npy files: what must be read, what must be refused and in which words.
#include "datasets/npy.hpp"
#include "tests/unit/reader_files.hpp"

#include <csignal>
#include <limits>
#include <sys/resource.h>
#include <sys/wait.h>

namespace clusterbench::datasets {
namespace {

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
  for (const std::string descr : {"<c8", "<f16", "|O", "<U3", "|S4", "<M8[ns]", "f8", "<i3"})
    EXPECT_REFUSED(with("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (0, 3), }"),
                   "x.npy: wrong dtype '" + descr + "': bool, int8 to int64");
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

/// A column of numbers as another program stores it.
template <class T>
std::string column(const std::string& descr, std::initializer_list<T> numbers) {
  return npy(1,
             "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" +
                 std::to_string(numbers.size()) + ",), }",
             raw(numbers));
}

TEST_F(Readers, NpyOfWholeNumbers) {
  const auto read = [&](const std::string& content) { return read_npy(file("i.npy", content)); };
  // Up to 16 bits as float32, which holds them all; wider ones as float64.
  const Array narrow[] = {
      read(column<std::int8_t>("|i1", {-128, 127})), read(column<std::int16_t>("<i2", {-128, 127})),
      read(column<std::uint8_t>("|u1", {0, 255})), read(column<std::uint16_t>("<u2", {0, 65535})),
      read(column<std::uint8_t>("|b1", {0, 1}))};
  const Values narrow_values[] = {{-128, 127}, {-128, 127}, {0, 255}, {0, 65535}, {0, 1}};
  for (std::size_t i = 0; i < std::size(narrow); ++i) {
    EXPECT_EQ(narrow[i].type(), ElementType::f32) << i;
    EXPECT_EQ(values(narrow[i]), narrow_values[i]) << i;
  }
  const Array wide[] = {read(column<std::int32_t>("<i4", {-2147483647 - 1, 16777217})),
                        read(column<std::uint32_t>("<u4", {0, 4294967295u})),
                        read(column<std::int64_t>("<i8", {-9007199254740992, 16777217})),
                        read(column<std::uint64_t>("<u8", {0, std::uint64_t{1} << 63}))};
  const Values wide_values[] = {{-2147483648.0, 16777217},
                                {0, 4294967295.0},
                                {-9007199254740992.0, 16777217},
                                {0, 9223372036854775808.0}};
  for (std::size_t i = 0; i < std::size(wide); ++i) {
    EXPECT_EQ(wide[i].type(), ElementType::f64) << i;
    EXPECT_EQ(values(wide[i]), wide_values[i]) << i;
  }
}

TEST_F(Readers, NpyOfWholeNumbersInEveryOrder) {
  const auto read = [&](const char* descr, const char* fortran_order, std::string_view data) {
    return values(read_npy(
        file("o.npy", npy(1,
                          std::string("{'descr': '") + descr +
                              "', 'fortran_order': " + fortran_order + ", 'shape': (2, 2), }",
                          data))));
  };
  EXPECT_EQ(read(">i2", "False", {"\0\1\0\2\1\0\xff\xff", 8}), (Values{1, 2, 256, -1}));
  EXPECT_EQ(read("|u1", "True", "\1\2\3\4"), (Values{1, 3, 2, 4}));
  EXPECT_EQ(read("=u4", "True", raw<std::uint32_t>({1, 2, 3, 4})), (Values{1, 3, 2, 4}));
}

TEST_F(Readers, NpyRefusesAWholeNumberThatWouldBeRounded) {
  EXPECT_REFUSED(read_npy(file("r.npy", column<std::int64_t>("<i8", {1, 9007199254740993}))),
                 "r.npy: row 1, column 0 (both from 0): 9007199254740993 is a whole number that "
                 "float64 does not hold exactly");
  EXPECT_REFUSED(read_npy(file("r.npy", column<std::int64_t>("<i8", {9223372036854775807}))),
                 "9223372036854775807 is a whole number");
  EXPECT_REFUSED(read_npy(file("r.npy", column<std::uint64_t>("<u8", {18446744073709551615u}))),
                 "18446744073709551615 is a whole number");
}

TEST_F(Readers, NpyOfFloat16) {
  // Zero, one, the least subnormal, the least normal, the largest, -2, infinity.
  const Array array = read_npy(
      file("h.npy", column<std::uint16_t>("<f2", {0, 0x3c00, 1, 0x0400, 0x7bff, 0xc000, 0x7c00})));
  EXPECT_EQ(array.type(), ElementType::f32);
  EXPECT_EQ(values(array),
            (Values{0, 1, 0x1p-24, 0x1p-14, 65504, -2, std::numeric_limits<double>::infinity()}));
  EXPECT_REFUSED(check_points(read_npy(file("n.npy", column<std::uint16_t>("<f2", {0x7e00})))),
                 "nan at row 0");
}

} // namespace
} // namespace clusterbench::datasets

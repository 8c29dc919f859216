// Reading points from any file: what must be read, what must be refused and in which words.
#include "datasets/npy.hpp"
#include "datasets/output_file.hpp"
#include "datasets/sha256.hpp"
#include "tests/unit/reader_files.hpp"

#include <cstring>
#include <limits>
#include <sys/stat.h>

namespace clusterbench::datasets {
namespace {

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

TEST_F(Readers, ExtensionsInCapitals) {
  EXPECT_EQ(values(read_file(file("X.CSV", "1,2"))), (Values{1, 2}));
  EXPECT_EQ(values(read_file(file("X.Csv", "1,2"), {.last_column_is_label = true})), (Values{1}));
  EXPECT_EQ(values(read_file(file("X.FVECS", raw<std::int32_t>({1}) + raw({2.0f})))), (Values{2}));
  EXPECT_EQ(values(read_file(
                file("X.NPY", npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }",
                                  raw({3.0f}))))),
            (Values{3}));
  EXPECT_TRUE(is_readable_extension("missing.BVECS"));
}

TEST_F(Readers, Bin) {
  const std::string size = raw<std::uint32_t>({2, 3});
  const Array f = read_file(file("x.fbin", size + raw({1.0f, 2.0f, 3.0f, -4.5f, 0.0f, 6.0f})));
  EXPECT_EQ(f.type(), ElementType::f32);
  EXPECT_EQ(f.rows(), 2u);
  EXPECT_EQ(values(f), (Values{1, 2, 3, -4.5, 0, 6}));
  EXPECT_EQ(values(read_file(file("x.u8bin", size + raw<std::uint8_t>({0, 1, 2, 127, 128, 255})))),
            (Values{0, 1, 2, 127, 128, 255}));
  EXPECT_EQ(values(read_file(file("X.I8BIN", size + raw<std::uint8_t>({0, 1, 2, 127, 128, 255})))),
            (Values{0, 1, 2, 127, -128, -1}));
  EXPECT_EQ(conversion_of(folder_ / "x.fbin"), "");
  EXPECT_EQ(conversion_of(folder_ / "x.u8bin"), "u8 to f32");
  EXPECT_EQ(conversion_of(folder_ / "X.I8BIN"), "i8 to f32");
}

TEST_F(Readers, BinRefusals) {
  EXPECT_REFUSED(read_file(file("x.fbin", raw<std::uint32_t>({2}))),
                 "a header of 8 bytes expected, 4 found");
  EXPECT_REFUSED(read_file(file("x.fbin", raw<std::uint32_t>({2, 2}) + raw({1.0f}))),
                 "the header says 2 x 2, which is 24 bytes in all; 12 found");
  EXPECT_REFUSED(read_file(file("x.u8bin", raw<std::uint32_t>({1, 2}) + "abc")),
                 "10 bytes in all; 11 found");
  EXPECT_REFUSED(read_file(file("x.i8bin", raw<std::uint32_t>({0xffffffff, 0xffffffff}))),
                 "8 found");
  EXPECT_REFUSED(check_points(read_file(file("x.fbin", raw<std::uint32_t>({0, 3})))), "n = 0");
}

TEST_F(Readers, ConversionOfNpy) {
  const auto of = [&](const char* type, std::size_t bytes) {
    return conversion_of(file(
        "c.npy",
        npy(1, std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (1, 1), }",
            std::string(bytes, '\0'))));
  };
  EXPECT_EQ(of("<f4", 4), "");
  EXPECT_EQ(of("<f8", 8), "");
  EXPECT_EQ(of("<f2", 2), "f16 to f32");
  EXPECT_EQ(of("|i1", 1), "i8 to f32");
  EXPECT_EQ(of("<i8", 8), "i64 to f64");
  EXPECT_EQ(of("|b1", 1), "bool to f32");
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

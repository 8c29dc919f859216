// A file of points that stays a file: what becomes of its readers when it changes, and which files
// can stay.
#include "datasets/errors.hpp"
#include "datasets/file_in_place.hpp"
#include "datasets/npy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>
#include <vector>

namespace clusterbench::datasets {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBudget = std::size_t{1} << 20;

class InPlace : public testing::Test {
protected:
  ~InPlace() override { fs::remove_all(folder_); }

  fs::path write(const char* name, const std::vector<char>& content) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary).write(content.data(), std::ssize(content));
    return path;
  }
  /// Rows of ones.
  fs::path write_fbin(std::uint32_t rows, std::uint32_t cols) const {
    std::vector<char> content(8 + std::size_t{rows} * cols * sizeof(float));
    std::memcpy(content.data(), &rows, 4);
    std::memcpy(content.data() + 4, &cols, 4);
    for (std::size_t at = 8; at < content.size(); at += sizeof(float)) {
      const float one = 1.0F;
      std::memcpy(content.data() + at, &one, sizeof one);
    }
    return write("points.fbin", content);
  }
  static float value(const FileInPlace& file, std::size_t i) {
    float found = 0;
    std::memcpy(&found, file.bytes().data() + 8 + i * sizeof(float), sizeof found);
    return found;
  }

  fs::path folder_ = [] {
    fs::path folder = fs::path(testing::TempDir()) / ("in_place" + std::to_string(getpid()));
    fs::create_directories(folder);
    return folder;
  }();
};

std::string refusal(const auto& attempt) {
  try {
    attempt();
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(InPlace, HoldsWhatIsInTheFile) {
  const fs::path path = write_fbin(100, 3);
  const FileInPlace file(path, kBudget);
  const PointsLayout layout = layout_of(file.bytes(), path);
  EXPECT_EQ(layout.type, ElementType::f32);
  EXPECT_EQ(layout.rows, 100u);
  EXPECT_EQ(layout.cols, 3u);
  EXPECT_EQ(layout.offset, 8u);
  EXPECT_EQ(value(file, 299), 1.0F);
  EXPECT_GE(file.descriptor(), 0);
  EXPECT_NO_THROW(file.check());
  EXPECT_TRUE(mapped_file_is_intact());
}

// However slowly the thread looks: a machine under load must not make a run exceed its limit.
TEST_F(InPlace, ThePeakIsWithoutThePagesOfTheFile) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20, kNoBudget = std::size_t{1} << 40;
  constexpr std::uint32_t kRows = 1 << 20, kCols = 16;
  const fs::path path = write_fbin(kRows, kCols);
  const FileInPlace file(path, kNoBudget);
  file.keep_within_budget();
  const std::size_t before = file.peak_resident_bytes();
  std::size_t ones = 0;
  for (std::size_t i = 0; i < std::size_t{kRows} * kCols; ++i)
    ones += value(file, i) == 1.0F ? 1 : 0;
  file.keep_within_budget();
  EXPECT_EQ(ones, std::size_t{kRows} * kCols);
  EXPECT_LT(file.peak_resident_bytes(), before + 8 * kMebibyte); // the file has 64

  std::vector<char> own(32 * kMebibyte, 'a');
  file.keep_within_budget();
  EXPECT_GT(file.peak_resident_bytes() + own[1] - 'a', before + 24 * kMebibyte);
}

TEST_F(InPlace, ATruncatedFileIsZerosAndAnError) {
  constexpr std::uint32_t kRows = 1 << 20;
  const fs::path path = write_fbin(kRows, 1);
  {
    const FileInPlace file(path, kBudget);
    fs::resize_file(path, 8 + 4 * 1000);
    EXPECT_EQ(value(file, 10), 1.0F);
    EXPECT_EQ(value(file, kRows / 2), 0.0F); // not the end of this process
    EXPECT_EQ(value(file, kRows - 1), 0.0F);
    EXPECT_FALSE(mapped_file_is_intact());
    EXPECT_NE(refusal([&] { file.check(); }).find("the file changed while it was used"),
              std::string::npos);
  }
  EXPECT_TRUE(mapped_file_is_intact()); // there is none
  const FileInPlace next(write_fbin(10, 1), kBudget);
  EXPECT_TRUE(mapped_file_is_intact());
}

TEST_F(InPlace, AFileThatSomebodyWritesToHasChanged) {
  const fs::path path = write_fbin(1000, 2);
  const FileInPlace file(path, kBudget);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_FALSE(mapped_file_is_intact());
  EXPECT_THROW(file.check(), InputError);
}

TEST_F(InPlace, WhatCannotStayAFileIsRefused) {
  const auto why = [&](const fs::path& path) {
    return refusal([&] {
      const FileInPlace file(path, kBudget);
      static_cast<void>(layout_of(file.bytes(), path));
    });
  };
  EXPECT_NE(why(folder_ / "none.npy").find("cannot open"), std::string::npos);
  EXPECT_NE(why(folder_).find("not a regular file"), std::string::npos);
  EXPECT_NE(why(write("empty.npy", {})).find("is empty"), std::string::npos);
  EXPECT_NE(why(write("a.csv", {'1', '\n'})).find("only a .npy or a .fbin"), std::string::npos);
  EXPECT_NE(why(write("short.fbin", {1, 0, 0, 0, 1, 0, 0, 0})).find("the header says 1 x 1"),
            std::string::npos);
  const fs::path whole = folder_ / "whole.npy";
  write_npy<std::int32_t>(whole, std::vector<std::int32_t>{1, 2}, {2, 1});
  EXPECT_NE(why(whole).find("only float32 or float64"), std::string::npos);
  const fs::path doubles = folder_ / "doubles.npy";
  write_npy<double>(doubles, std::vector<double>{1, 2}, {2, 1});
  EXPECT_EQ(why(doubles), "none");

  const FileInPlace first(doubles, kBudget);
  EXPECT_NE(why(doubles).find("one stays a file at a time"), std::string::npos);
}

} // namespace
} // namespace clusterbench::datasets

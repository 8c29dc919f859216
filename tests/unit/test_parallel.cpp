// Work in pieces on all cores: every index once, and the first of several that are looked for.
#include "datasets/array.hpp"
#include "datasets/errors.hpp"
#include "datasets/mapped_file.hpp"
#include "datasets/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace clusterbench::datasets {
namespace {

constexpr std::size_t kSearched = std::size_t{1} << 22; ///< indices of a piece that is searched

TEST(ParallelPieces, TakeEveryIndexOnce) {
  for (const std::size_t count : {0u, 1u, 6u, 7u, 8u, 1000u}) {
    std::vector<std::atomic<int>> calls(count);
    parallel_pieces(count, 7, [&](std::size_t begin, std::size_t end) {
      EXPECT_EQ(begin % 7, 0u);
      EXPECT_LT(begin, end);
      EXPECT_LE(end, begin + 7);
      for (std::size_t i = begin; i < end; ++i)
        ++calls[i];
    });
    EXPECT_TRUE(std::ranges::all_of(calls, [](const auto& called) { return called == 1; }))
        << count;
  }
}

TEST(FirstIndexWhere, IsTheLeastOfSeveralPieces) {
  const std::size_t count = 5 * kSearched + 3;
  const auto first_of = [&](std::vector<std::size_t> bad) {
    return first_index_where(count, [&](std::size_t i) { return std::ranges::count(bad, i) > 0; });
  };
  EXPECT_EQ(first_of({}), count);
  EXPECT_EQ(first_of({count - 1}), count - 1);
  EXPECT_EQ(first_of({4 * kSearched, 3 * kSearched + 5, 3 * kSearched + 4}), 3 * kSearched + 4);
  EXPECT_EQ(first_of({0, kSearched - 1, kSearched}), 0u);
  EXPECT_EQ(first_index_where(0, [](std::size_t) { return true; }), 0u);
}

TEST(CheckPoints, NamesTheFirstThatIsNoNumber) {
  std::vector<float> values(3 * kSearched, 1.0f);
  values[2 * kSearched + 7] = std::numeric_limits<float>::infinity();
  values[2 * kSearched + 9] = values[2 * kSearched + 8] = std::numeric_limits<float>::quiet_NaN();
  try {
    check_points<float>(values, 4, "points");
    FAIL() << "infinity is no point";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), std::string("points: inf at row 2097153, column 3 (both from 0)"));
  }
}

TEST(MappedFile, HoldsAllOfALongFile) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "clusterbench-long-file";
  std::vector<unsigned> words((std::size_t{150} << 20) / sizeof(unsigned)); // of several pieces
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<unsigned>(i * 2654435761u);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()),
             static_cast<std::streamsize>(words.size() * sizeof(unsigned)));
  const MappedFile file(path);
  std::filesystem::remove(path);
  ASSERT_EQ(file.bytes().size(), words.size() * sizeof(unsigned));
  EXPECT_TRUE(std::ranges::equal(file.bytes(), std::as_bytes(std::span(words))));
}

} // namespace
} // namespace clusterbench::datasets

// Rows of generated datasets made alone: the bits that they have in the whole, however it is split.
#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "datasets/generators.hpp"
#include "datasets/mersenne_jump.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace clusterbench::datasets {
namespace {

using nlohmann::json;
using Make = std::function<Array(RowRange)>;

bool same_bytes(const Array& part, const Array& whole, std::size_t first) {
  const std::size_t row = whole.cols() * size_of(whole.type());
  return part.cols() == whole.cols() && part.type() == whole.type() &&
         std::ranges::equal(part.bytes(), whole.bytes().subspan(first * row, part.rows() * row));
}

bool same_labels(const Array& part, const Array& whole, std::size_t first) {
  if (part.labels.has_value() != whole.labels.has_value())
    return false;
  return !part.labels || (part.labels->size() == part.rows() &&
                          std::equal(part.labels->begin(), part.labels->end(),
                                     whole.labels->begin() + static_cast<std::ptrdiff_t>(first)));
}

/// Every pair of the borders is a range; those of the generators' own blocks are among them.
void expect_ranges_of_the_whole(const Make& make, std::vector<std::size_t> borders) {
  const Array whole = make({});
  borders.push_back(whole.rows());
  for (std::size_t a = 0; a < borders.size(); ++a) {
    for (std::size_t b = a; b < borders.size(); ++b) {
      const RowRange range{borders[a], borders[b] - borders[a]};
      const Array part = make(range);
      ASSERT_EQ(part.rows(), range.count);
      EXPECT_TRUE(same_bytes(part, whole, range.first)) << range.first << " " << range.count;
      EXPECT_TRUE(same_labels(part, whole, range.first)) << range.first << " " << range.count;
    }
    EXPECT_TRUE(same_bytes(make({borders[a]}), whole, borders[a])) << borders[a] << " to the last";
  }
  EXPECT_THROW(make({0, whole.rows() + 1}), InputError);
  EXPECT_THROW(make({1, whole.rows()}), InputError);
  EXPECT_THROW(make({whole.rows() + 1, 0}), InputError);
  EXPECT_THROW(make({whole.rows() + 1}), InputError);
  EXPECT_THROW(make({1, RowRange::kToTheLast - 1}), InputError);
}

TEST(RowRanges, OfUniform) {
  for (const ElementType type : {ElementType::f32, ElementType::f64})
    expect_ranges_of_the_whole(
        [&](RowRange rows) {
          return make_uniform({3000, 7, -1.0, 2.0, 5, type}, rows);
        },
        {0, 1, 2, 77, 1500, 2999});
}

TEST(RowRanges, OfUniformBeyondABlock) { // the generator has blocks of 2^22 values
  const std::size_t n = (std::size_t{2} << 22) / 3 + 5;
  const UniformOptions options{n, 3, 0.0, 1.0, 8, ElementType::f64};
  const Array whole = make_uniform(options);
  std::vector<double> drawn(whole.size());
  RandomState(8).uniform(0.0, 1.0, drawn); // one value after the other
  EXPECT_TRUE(std::ranges::equal(whole.f64(), drawn));
  const std::size_t first = n / 2 + 1;
  EXPECT_TRUE(same_bytes(make_uniform(options, {first, n - first}), whole, first));
  EXPECT_TRUE(same_bytes(make_uniform(options, {n - 3, 2}), whole, n - 3));
}

TEST(RowRanges, OfAMixture) {
  for (const ElementType type : {ElementType::f32, ElementType::f64})
    for (const bool unit_norm : {false, true})
      expect_ranges_of_the_whole(
          [&](RowRange rows) {
            return make_mixture({9000, 3, 5, 0.5, 7, 1.0, unit_norm, type}, rows);
          },
          {0, 1, 4095, 4096, 4097, 5000, 8192, 8999});
}

TEST(RowRanges, OfColourMoments) {
  expect_ranges_of_the_whole(
      [](RowRange rows) {
        return make_colour_moments({2500, 3}, rows);
      },
      {0, 1, 1023, 1024, 1500, 2048, 2499});
}

TEST(RowRanges, OfNamesPastTheCache) {
  const Array whole =
      generate("mixture", {{"n", 5000}, {"d", 4}, {"components", 3}, {"std", 1.5}, {"seed", 9}});
  EXPECT_TRUE(same_bytes(generate_rows("mixture:5000,4,3,1.5,9", {4000, 200}), whole, 4000));
  // 10^12 rows, of which nobody makes more than three.
  const std::size_t many = 1'000'000'000'000, first = many - 4;
  const Array three = generate_rows("uniform:1000000000000,2,3", {first, 3});
  RandomState random(3);
  random.discard(2 * 2 * first);
  for (std::size_t i = 0; i < 6; ++i) {
    const double value = random.random_sample();
    EXPECT_EQ(three.type() == ElementType::f32 ? three.f32()[i] : three.f64()[i],
              three.type() == ElementType::f32 ? static_cast<float>(value) : value);
  }
  EXPECT_THROW(generate_rows("no-such-name", {0, 1}), InputError);
}

TEST(RowRanges, PiecesFitTogether) {
  const Array whole =
      generate("mixture", {{"n", 13'000}, {"d", 4}, {"components", 3}, {"std", 1.5}, {"seed", 9}});
  constexpr std::size_t kRow = 4 * sizeof(double);
  for (const std::size_t rows : {1'000u, 4'096u, 9'000u, 50'000u}) {
    const std::size_t begin = 3'000, end = 12'500;
    std::size_t next = begin;
    generate_in_pieces("mixture:13000,4,3,1.5,9", {begin, end - begin}, rows * kRow,
                       [&](const Array& piece, std::size_t first) {
                         EXPECT_EQ(first, next);
                         EXPECT_LE(piece.rows(), rows);
                         EXPECT_TRUE(same_bytes(piece, whole, first)) << rows << " " << first;
                         // Each stream of the generator is drawn once.
                         const bool ends_with_stream = (first + piece.rows()) % 4096 == 0;
                         EXPECT_TRUE(rows < 4096 || ends_with_stream ||
                                     first + piece.rows() == end);
                         next = first + piece.rows();
                       });
    EXPECT_EQ(next, end);
  }
  std::size_t rows = 0;
  generate_in_pieces("uniform:9,1,1", {}, 0, [&](const Array& piece, std::size_t) {
    EXPECT_EQ(piece.rows(), 1u);
    ++rows;
  });
  EXPECT_EQ(rows, 9u);
}

TEST(RowRanges, WhoseRowsCanBeMadeAlone) {
  for (const char* name : {"uniform:9,1,1", "mixture:9,1,2,0.5,1", "mixture-far", "article002"})
    EXPECT_TRUE(makes_rows_alone(name)) << name;
  for (const char* name :
       {"article000", "article004-100", "fcm-separable", "points.npy", "uniform"})
    EXPECT_FALSE(makes_rows_alone(name)) << name;
}

TEST(RowRanges, OfRowsThatDependOnAllOthersThereAreNone) {
  for (const char* generator : {"make_blobs", "make_classification"}) {
    EXPECT_EQ(generate(generator, json::object(), {}).rows(), 100u);
    EXPECT_THROW(generate(generator, json::object(), {0, 100}), InputError);
    EXPECT_THROW(generate(generator, json::object(), {5}), InputError);
  }
  EXPECT_THROW(generate("no_such", json::object(), {5, 1}), InputError);
}

// ---- the leap

std::uint32_t word_after(std::uint64_t drawn, std::uint64_t left_out) {
  RandomState random(42);
  for (std::uint64_t i = 0; i < drawn; ++i)
    random.next_uint32();
  random.discard(left_out);
  return random.next_uint32();
}

TEST(Leap, LeavesOutAsManyWords) {
  std::vector<std::uint32_t> words(2'300'000);
  RandomState random(42);
  for (std::uint32_t& word : words)
    word = random.next_uint32();
  for (const std::uint64_t drawn : {0u, 1u, 623u, 624u, 1000u})
    for (const std::uint64_t left_out : {0u, 1u, 622u, 623u, 624u, 625u, 1248u, 99'999u, 1u << 20,
                                         (1u << 20) + 1, 1'600'000u, 2'200'000u})
      EXPECT_EQ(word_after(drawn, left_out), words[drawn + left_out]) << drawn << " " << left_out;
}

TEST(Leap, GoesOnAsTheStreamDoes) {
  RandomState leapt(7), drawn(7);
  const std::uint64_t far = 3'000'001;
  leapt.discard(far);
  for (std::uint64_t i = 0; i < far; ++i)
    drawn.next_uint32();
  for (int i = 0; i < 2000; ++i)
    ASSERT_EQ(leapt.next_uint32(), drawn.next_uint32()) << i;
}

TEST(Leap, ForgetsAKeptNormal) {
  RandomState keeps(7), forgets(7);
  keeps.standard_normal(); // draws two
  forgets.standard_normal();
  forgets.discard(0);
  EXPECT_NE(keeps.standard_normal(), forgets.standard_normal());
  EXPECT_NE(keeps.next_uint32(), forgets.next_uint32()); // which drew two more
}

TEST(Leap, TwoLeapsAreOneOfTheirSum) {
  for (const std::uint64_t first : {std::uint64_t{1} << 21, std::uint64_t{123'456'789'012'345}})
    for (const std::uint64_t second : {std::uint64_t{5'000'000}, std::uint64_t{1} << 61}) {
      RandomState twice(1), once(1);
      twice.discard(first);
      twice.discard(second);
      once.discard(first + second);
      for (int i = 0; i < 1500; ++i)
        ASSERT_EQ(twice.next_uint32(), once.next_uint32()) << first << " " << second << " " << i;
    }
}

} // namespace
} // namespace clusterbench::datasets

// RandomState against values that NumPy 1.24 printed (repr, so to the last bit). The comparison at
// length, against NumPy itself, is test_generators_against_sklearn.py.
#include "datasets/errors.hpp"
#include "datasets/random_state.hpp"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

namespace clusterbench::datasets {
namespace {

TEST(RandomState, GivesTheWordsOfTheMersenneTwister) {
  RandomState random(5489); // the seed and the 10,000th word that the C++ standard prescribes
  std::uint32_t word = 0;
  for (int i = 0; i < 10000; ++i)
    word = random.next_uint32();
  EXPECT_EQ(word, 4123659995u);
}

TEST(RandomState, RandIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.rand(4), (std::vector<double>{0.6476912306619782, 0.9969135798725731,
                                                 0.518803264443478, 0.6581127314274052}));
}

TEST(RandomState, RandnIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.randn(5),
            (std::vector<double>{2.1244486275782046, 0.25264612773625833, 1.4541787617796351,
                                 0.5692397935420037, 0.4582236477314789}));
}

TEST(RandomState, RandintIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.randint(-3, 1000, 8),
            (std::vector<std::int64_t>{952, 910, 606, 489, 610, 598, 862, 205}));
}

TEST(RandomState, RandintBeyond32BitsIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.randint(0, std::int64_t{1} << 40, 4),
            (std::vector<std::int64_t>{804984136593, 419630516716, 435649643097, 419103168720}));
}

TEST(RandomState, RandintOfTheWholeRangeIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.randint(0, std::int64_t{1} << 32, 4),
            (std::vector<std::int64_t>{2781812667, 1825252241, 4281711201, 3018689004}));
}

TEST(RandomState, PermutationIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.permutation(12),
            (std::vector<std::int64_t>{6, 4, 2, 3, 8, 0, 7, 9, 5, 10, 1, 11}));
}

TEST(RandomState, ChoiceIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.choice(9, 6), (std::vector<std::int64_t>{1, 1, 5, 1, 0, 0}));
}

TEST(RandomState, ChoiceWithoutReplacementIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.choice(9, 6, false), (std::vector<std::int64_t>{2, 3, 0, 6, 7, 5}));
}

TEST(RandomState, WeightedChoiceIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.choice(4, 8, true, std::array{0.1, 0.2, 0.3, 0.4}),
            (std::vector<std::int64_t>{3, 3, 2, 3, 2, 3, 1, 0}));
}

TEST(RandomState, WeightedChoiceWithoutReplacementIsNumPys) {
  RandomState random(1024);
  EXPECT_EQ(random.choice(4, 3, false, std::array{0.1, 0.2, 0.3, 0.4}),
            (std::vector<std::int64_t>{3, 2, 1}));
}

TEST(RandomState, SequenceSeedIsNumPys) {
  RandomState random(std::array<std::uint32_t, 3>{1, 2, 3});
  EXPECT_EQ(random.rand(3),
            (std::vector<double>{0.6098612722867289, 0.8866970434146851, 0.47633673750662764}));
}

TEST(RandomState, BatchesAndSingleCallsAreOneStream) {
  RandomState batch(7);
  RandomState single(7);
  std::array<double, 5> normals{}; // odd: the spare deviate carries over
  for (int round = 0; round < 3; ++round) {
    batch.standard_normal(normals);
    for (const double normal : normals)
      EXPECT_EQ(normal, single.standard_normal());
  }
  batch.random_sample(normals);
  for (const double value : normals)
    EXPECT_EQ(value, single.random_sample());
}

TEST(RandomState, ShuffleIsAPermutation) {
  RandomState random(1);
  const std::vector<std::int64_t> order = random.permutation(1000);
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), 1000u);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 999);
  EXPECT_EQ(std::accumulate(order.begin(), order.end(), std::int64_t{0}), 999 * 500);
}

TEST(RandomState, ShuffleOfPairsMovesThemWhole) {
  RandomState random(1);
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < 50; ++i)
    pairs.emplace_back(i, 2 * i);
  random.shuffle(std::span(pairs));
  EXPECT_NE(pairs[0].first + pairs[1].first, 1);
  for (const auto& [first, second] : pairs)
    EXPECT_EQ(second, 2 * first);
}

TEST(RandomState, RefusesWhatCannotBeDrawn) {
  RandomState random(0);
  EXPECT_THROW(random.randint(3, 3), InputError);
  EXPECT_THROW(random.choice(3, 4, false), InputError);
  EXPECT_THROW(random.choice(0, 1), InputError);
  EXPECT_THROW(random.choice(2, 1, true, std::array{0.5, 0.6}), InputError);
  EXPECT_THROW(random.choice(2, 1, true, std::array{1.5, -0.5}), InputError);
  EXPECT_THROW(random.choice(2, 2, false, std::array{1.0, 0.0}), InputError);
  EXPECT_THROW(RandomState(std::span<const std::uint32_t>()), InputError);
}

} // namespace
} // namespace clusterbench::datasets

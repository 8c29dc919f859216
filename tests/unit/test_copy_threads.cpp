// The team that fills and empties chunks of staged copies.
#include "harness/worker/cuda/copy_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

namespace clusterbench {
namespace {

TEST(CopyThreads, DoesEachPieceOnce) {
  for (const std::size_t size : {1, 2, 5}) {
    CopyThreads team(size);
    EXPECT_EQ(team.size(), size);
    for (std::size_t pieces : {0, 1, 3, 1000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::atomic<int>> done(pieces);
        std::atomic<std::size_t> next = 0;
        team.run([&](std::size_t) {
          for (std::size_t i = next++; i < pieces; i = next++) {
            ++done[i];
          }
        });
        for (const std::atomic<int>& times : done) {
          ASSERT_EQ(times, 1);
        }
      }
    }
  }
}

TEST(CopyThreads, NobodyTakesPartTwiceOrAfterwards) {
  CopyThreads team(4);
  for (int repeat = 0; repeat < 500; ++repeat) {
    std::vector<std::atomic<int>> calls(4);
    std::atomic<bool> returned = false, late = false;
    team.run([&](std::size_t index) {
      ++calls[index];
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      late = late || returned;
    });
    returned = true;
    EXPECT_EQ(calls[0], 1); // the caller always does
    for (const std::atomic<int>& times : calls) {
      EXPECT_LE(times, 1);
    }
    EXPECT_FALSE(late);
  }
}

TEST(CopyThreads, OthersTakePartInLongWork) {
  CopyThreads team(2);
  std::set<std::size_t> seen;
  for (int repeat = 0; repeat < 100 && seen.size() < 2; ++repeat) {
    std::vector<std::atomic<bool>> was(2);
    team.run([&](std::size_t index) {
      was[index] = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
    for (std::size_t index = 0; index < 2; ++index) {
      if (was[index]) {
        seen.insert(index);
      }
    }
  }
  EXPECT_EQ(seen.size(), 2U);
}

TEST(CopyThreads, EndsWithoutWork) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    CopyThreads team(3);
  }
}

} // namespace
} // namespace clusterbench

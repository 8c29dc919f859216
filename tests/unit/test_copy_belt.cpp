// Arrays that go through a ring of memory, with a link that is late.
#include "harness/worker/cuda/copy_belt.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kBlock = 1 << 10, kBlocks = 16;

enum class Way { up, down };

/// Copies as late as it may: what the belt puts into the ring or takes out too early is wrong.
class LateLink {
public:
  /// lag: how often a copy is asked for before it ends.
  LateLink(std::vector<char>& ring, std::vector<char>& device, Way way, int lag)
      : ring_(ring), device_(device), way_(way), lag_(lag) {}

  void start(std::size_t ring_at, std::size_t array_at, std::size_t bytes) {
    if (++copies == fails_at) {
      throw std::runtime_error("the link is down");
    }
    ASSERT_LE(ring_at + bytes, ring_.size());
    ASSERT_LE(array_at + bytes, device_.size());
    queue_.push_back({ring_at, array_at, bytes, lag_});
    EXPECT_LE(queue_.size(), CopyBelt::kUnderWay);
  }
  bool has_ended() {
    Copy& oldest = queue_.front();
    if (oldest.lag-- > 0) {
      return false;
    }
    char *in_ring = &ring_[oldest.ring_at], *on_device = &device_[oldest.array_at];
    std::memcpy(way_ == Way::up ? on_device : in_ring, way_ == Way::up ? in_ring : on_device,
                oldest.bytes);
    queue_.pop_front();
    return true;
  }

  int copies = 0, fails_at = -1;

private:
  struct Copy {
    std::size_t ring_at, array_at, bytes;
    int lag;
  };
  std::vector<char>&ring_, &device_;
  Way way_;
  int lag_;
  std::deque<Copy> queue_;
};

std::vector<char> numbers(std::size_t size) {
  std::vector<char> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    values[i] = static_cast<char>((i * 2654435761U) >> 11);
  }
  return values;
}

TEST(CopyBelt, BringsEveryByteToItsPlace) {
  std::vector<char> ring(kBlocks * kBlock);
  for (const std::size_t threads : {1, 2, 5}) {
    CopyBelt belt(ring, kBlock, threads);
    for (const std::size_t bytes :
         {std::size_t{1}, kBlock - 1, kBlock, 4 * kBlock, 4 * kBlock + 1, kBlocks * kBlock,
          kBlocks * kBlock + 1, 7 * kBlocks * kBlock + 333}) {
      const std::vector<char> host = numbers(bytes);
      for (int repeat = 0; repeat < 30; ++repeat) {
        std::vector<char> device(bytes), back(bytes);
        LateLink up(ring, device, Way::up, repeat);
        belt.load(host.data(), bytes, up);
        ASSERT_EQ(device, host) << bytes << " bytes, " << threads << " threads";
        LateLink down(ring, device, Way::down, repeat);
        belt.unload(back.data(), bytes, down);
        ASSERT_EQ(back, host) << bytes << " bytes, " << threads << " threads";
      }
    }
  }
}

TEST(CopyBelt, ALinkThatIsLateGetsFewLongCopies) {
  std::vector<char> ring(kBlocks * kBlock);
  CopyBelt belt(ring, kBlock, 1);
  const std::vector<char> host = numbers(10 * kBlocks * kBlock);
  std::vector<char> device(host.size());
  LateLink link(ring, device, Way::up, 100);
  belt.load(host.data(), host.size(), link);
  EXPECT_LE(link.copies, 40); // of 160 blocks; the ring's end and its filling cut them
}

TEST(CopyBelt, SaysThatTheLinkFailedAndGoesOn) {
  std::vector<char> ring(kBlocks * kBlock);
  CopyBelt belt(ring, kBlock, 4);
  const std::vector<char> host = numbers(20 * kBlocks * kBlock);
  for (int repeat = 0; repeat < 30; ++repeat) {
    std::vector<char> device(host.size()), back(host.size());
    for (const int fails_at : {1, 2, 5}) {
      LateLink up(ring, device, Way::up, 3), down(ring, device, Way::down, 3);
      up.fails_at = fails_at;
      down.fails_at = fails_at;
      EXPECT_THROW(belt.load(host.data(), host.size(), up), std::runtime_error);
      EXPECT_THROW(belt.unload(back.data(), back.size(), down), std::runtime_error);
    }
    LateLink link(ring, device, Way::up, 3);
    belt.load(host.data(), host.size(), link);
    ASSERT_EQ(device, host);
  }
}

TEST(CopyBelt, CopiesPastTheCachesWhateverTheAddress) {
  const std::vector<char> from = numbers(300);
  for (std::size_t to_offset = 0; to_offset < 17; ++to_offset) {
    for (const std::size_t bytes : {0, 1, 15, 16, 17, 64, 200}) {
      std::vector<char> to(300, 7), want = to;
      std::copy_n(from.begin() + 3, bytes, want.begin() + static_cast<std::ptrdiff_t>(to_offset));
      copy_past_caches(to.data() + to_offset, from.data() + 3, bytes);
      ASSERT_EQ(to, want);
    }
  }
}

} // namespace
} // namespace clusterbench

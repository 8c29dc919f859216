// How rows are shared out among devices, and what a variant for several of them is asked.
#include "harness/problem/registry.hpp"
#include "harness/worker/shards.hpp"
#include "impls/contract.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace clusterbench {
namespace {

TEST(Shards, HoldEveryRowOnceInOrder) {
  for (std::size_t n = 0; n < 40; ++n) {
    for (std::size_t shards = 1; shards < 12; ++shards) {
      std::size_t next = 0, least = n, most = 0;
      for (std::size_t i = 0; i < shards; ++i) {
        const RowRange rows = shard_of_rows(n, shards, i);
        EXPECT_EQ(rows.first, next) << n << " rows, shard " << i << " of " << shards;
        next += rows.count;
        least = std::min(least, rows.count);
        most = std::max(most, rows.count);
      }
      EXPECT_EQ(next, n) << shards;
      EXPECT_LE(most - least, 1u) << n << " rows in " << shards;
    }
  }
}

TEST(Shards, TheLastAreEmptyWhereThereAreFewerRowsThanShards) {
  for (std::size_t i = 0; i < 8; ++i) {
    const RowRange rows = shard_of_rows(3, 8, i);
    EXPECT_EQ(rows.count, i < 3 ? 1u : 0u);
    EXPECT_EQ(rows.first, std::min<std::size_t>(i, 3)); // no row beyond the end
  }
}

TEST(Shards, OfAsManyRowsAsThereCanBe) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  const RowRange last = shard_of_rows(kMost, 7, 6);
  EXPECT_EQ(last.first + last.count, kMost);
}

TEST(Shards, AVariantForSeveralDevicesIsNotAskedForOne) {
  class Sharded final : public ShardedVariant<float> {
  public:
    void prepare_shards(const Shape&, std::span<const Shard<float>>) override {}
    void run_shards(std::span<const Start<float>>, std::span<Answer<float>>,
                    Observer<float>&) override {}
  };
  Sharded sharded;
  Variant<float>& variant = sharded;
  Answer<float> answer;
  Observer<float> nobody;
  EXPECT_THROW(variant.prepare({}, {}), std::logic_error);
  EXPECT_THROW(variant.run({}, answer, nobody), std::logic_error);
}

TEST(Shards, GpusThatAVariantIsGiven) {
  Meta meta;
  EXPECT_EQ(gpus_of(meta, 4), 0);
  meta.device = Device::gpu;
  EXPECT_EQ(gpus_of(meta, 4), 1);
  meta.device = Device::multi_gpu;
  EXPECT_EQ(gpus_of(meta, 4), 4);
  meta.device = Device::mpi_gpu;
  EXPECT_EQ(gpus_of(meta, 4), 4);
}

} // namespace
} // namespace clusterbench

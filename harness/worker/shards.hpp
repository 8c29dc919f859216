// How rows are shared out among the devices of a ShardedVariant.
#pragma once

#include <algorithm>
#include <cstddef>

namespace clusterbench {

/// Consecutive rows.
struct RowRange {
  std::size_t first = 0, count = 0;
};

/// The rows of one of `shards` parts of n rows: in order, of sizes that differ by at most one; the
/// last ones are empty where there are fewer rows than parts. shard < shards.
inline RowRange shard_of_rows(std::size_t n, std::size_t shards, std::size_t shard) {
  const std::size_t size = n / shards, longer = n % shards;
  return {shard * size + std::min(shard, longer), size + (shard < longer ? 1 : 0)};
}

} // namespace clusterbench

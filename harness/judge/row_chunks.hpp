// Loops over the rows of a data set whose sums do not depend on the number of threads: rows are cut
// into chunks that follow from the problem's shape and from what a row costs, each chunk is summed
// on its own, and the partial sums are combined in the order of the chunks.
#pragma once

#include "harness/judge/interruption.hpp"
#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <omp.h>
#include <utility>
#include <vector>

namespace clusterbench {

struct RowChunk {
  std::size_t begin;
  std::size_t end;
};

/// Cuts n rows into chunks, so that one is worth a thread. values_per_chunk: doubles that one
/// partial result holds; the more it holds, the fewer the chunks, so that all of them together stay
/// within 256 MiB.
inline std::vector<RowChunk> row_chunks(std::size_t n, std::size_t values_per_chunk,
                                        double operations_per_row) {
  constexpr double kWorthAThread = 1 << 26; // operations
  const auto rows_worth_a_thread =
      static_cast<std::size_t>(std::clamp(kWorthAThread / operations_per_row, 256.0, 2048.0));
  constexpr std::size_t kMostChunks = 64;
  constexpr std::size_t kMostValues = std::size_t{1} << 25;
  const std::size_t by_memory = kMostValues / std::max<std::size_t>(values_per_chunk, 1);
  const std::size_t count =
      std::clamp<std::size_t>(std::min(n / rows_worth_a_thread, by_memory), 1, kMostChunks);
  std::vector<RowChunk> chunks(count);
  for (std::size_t i = 0; i < count; ++i) {
    chunks[i] = {n / count * i + std::min(i, n % count),
                 n / count * (i + 1) + std::min(i + 1, n % count)};
  }
  return chunks;
}

/// Scratch memory of a loop that needs none.
struct NoScratch {};

/// Calls body(index, rows, scratch) for every chunk, as often as it takes to cover its rows in
/// order: a piece is what takes some milliseconds, and InterruptScope is asked before each. Runs on
/// as many threads as OpenMP has and the container's quota allows; each has a copy of `scratch`.
/// body must not throw. Throws Interrupted.
template <typename Scratch, typename Body>
void for_each_chunk(const std::vector<RowChunk>& chunks, double operations_per_row,
                    const Scratch& scratch, const Body& body) {
  constexpr double kOperations = 1 << 23;
  constexpr double kMostRows = 4096;
  constexpr std::size_t kMultiple = 16; // of the rows that share one look at the centroids
  const std::size_t rows =
      static_cast<std::size_t>(std::clamp(kOperations / operations_per_row, 1.0, kMostRows) /
                               static_cast<double>(kMultiple)) *
          kMultiple +
      kMultiple;
  const int threads = startable_threads(
      std::min(within_quota(omp_get_max_threads()), static_cast<int>(chunks.size())));
  std::vector<Scratch> own(static_cast<std::size_t>(threads), scratch);
  const InterruptTest* const interrupted = InterruptScope::current();
  std::atomic<bool> stop = false;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    Scratch& mine = own[static_cast<std::size_t>(omp_get_thread_num())];
    for (std::size_t row = chunks[i].begin; row < chunks[i].end && !stop; row += rows) {
      if (interrupted != nullptr && (*interrupted)()) {
        stop = true;
      } else {
        body(i, RowChunk{row, std::min(row + rows, chunks[i].end)}, mine);
      }
    }
  }
  if (stop) {
    throw Interrupted();
  }
}

/// Runs body(rows, partial, scratch) over n rows and returns the combined partial. Partial has
/// add(const Partial&); `empty` is what each chunk starts from.
template <typename Partial, typename Scratch, typename Body>
Partial combine_rows(std::size_t n, std::size_t values_per_chunk, double operations_per_row,
                     const Partial& empty, const Scratch& scratch, const Body& body) {
  const auto chunks = row_chunks(n, values_per_chunk, operations_per_row);
  std::vector<Partial> partials(chunks.size(), empty);
  for_each_chunk(
      chunks, operations_per_row, scratch,
      [&](std::size_t index, RowChunk rows, Scratch& mine) { body(rows, partials[index], mine); });
  for (std::size_t i = 1; i < partials.size(); ++i) {
    partials[0].add(partials[i]);
  }
  return std::move(partials[0]);
}

} // namespace clusterbench

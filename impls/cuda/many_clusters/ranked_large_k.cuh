// Runs on several devices, a pass at a time, for any number of clusters.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/ranks.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace clusterbench::cuda {

/// Exchange has, beside what RankedRun wants: of_all(rank, own), see LargeK.
template <typename Exchange>
using RankedLargeK =
    RankedRun<LargeK<WgmmaSweep<>, RankMember<Exchange>>, RankMember<Exchange>, Exchange>;

/// Lets the runs of all ranks add up in the same unit. Returns the words of 64 bits that their sums are.
template <typename Run>
std::size_t agree_on_sums(const Shape& shape, const std::vector<Run*>& runs) {
  double largest = 0.0;
  for (const Run* run : runs) {
    largest = std::max(largest, run->largest());
  }
  for (Run* run : runs) {
    run->take_range(shape.n, largest);
  }
  return runs.front()->words();
}

/// Totals whose sums lie at `high` in the order of a rank's own.
inline PassTotals totals_at(long long* high, const PassTotals& own, const double* loss,
                            const unsigned* moved) {
  const auto* counts = reinterpret_cast<const long long*>(own.sums.counts);
  return {{own.sums.point, high, high + (own.sums.low - own.sums.high),
           reinterpret_cast<unsigned*>(high + (counts - own.sums.high))},
          own.words,
          loss,
          moved};
}

} // namespace clusterbench::cuda

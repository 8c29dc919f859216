// The rows that the first level has flagged: a second sweep finds the centroids within their
// bounds, and those, and only those, are compared in the type of the data by the difference form.
#pragma once

#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/many_clusters/half_copy.cuh"
#include "impls/cuda/many_clusters/tensor_tiles.cuh"

namespace clusterbench::cuda {

// ---- products of a warp on float16 tiles

/// A warp's 32 rows times kColumns columns: sums[mi][ni][e] belongs to row
/// 16 mi + 8 (e / 2) + lane / 4 and column 8 ni + 2 (lane % 4) + e % 2.
template <unsigned kColumns>
using WarpSums = float[2][kColumns / 8][4];

/// sums += rows (32 of a chunk) * columns (kColumns of a chunk), over `steps` groups of 16
/// features. Both are in shared memory, kWidth halves a row, swizzled; row numbers must be
/// multiples of 8.
template <unsigned kWidth, unsigned kColumns>
__device__ void multiply_chunk(WarpSums<kColumns>& sums, const __half* rows, const __half* columns,
                               unsigned steps, unsigned lane) {
  const unsigned row = lane & 15, column = (lane & 7) + (lane >> 4) * 8;
  const unsigned row_base = shared_address(rows) + row * kWidth * 2;
  const unsigned column_base = shared_address(columns) + column * kWidth * 2;
#pragma unroll
  for (unsigned step = 0; step < kWidth / 16; ++step) {
    if (step >= steps) {
      break;
    }
    unsigned a[2][4];
#pragma unroll
    for (unsigned mi = 0; mi < 2; ++mi) {
      const unsigned group = HalfTiles::swizzled(kWidth, row, step * 2 + (lane >> 4));
      load_matrices(a[mi], row_base + mi * 16 * kWidth * 2 + group * 16);
    }
#pragma unroll
    for (unsigned ni = 0; ni < kColumns / 8; ni += 2) {
      const unsigned group = HalfTiles::swizzled(kWidth, column, step * 2 + (lane >> 3 & 1));
      unsigned b[4];
      load_matrices(b, column_base + ni * 8 * kWidth * 2 + group * 16);
#pragma unroll
      for (unsigned mi = 0; mi < 2; ++mi) {
        multiply_add(sums[mi][ni], a[mi], b[0], b[1]);
        multiply_add(sums[mi][ni + 1], a[mi], b[2], b[3]);
      }
    }
  }
}

// ---- the second sweep

inline constexpr unsigned kSecondRows = 64, kSecondThreads = 256, kSecondStages = 2;
inline constexpr unsigned kSecondQueue = 960;   ///< with more, rows of 576 features had one block
inline constexpr unsigned kMostKeptChunks = 16; ///< of 64 features; rows of more are streamed

/// Chunks of the rows in shared memory at a time: all, or those of the stages.
__host__ __device__ inline unsigned second_row_chunks(const HalfTiles& shape) {
  return shape.chunks <= kMostKeptChunks ? shape.chunks : kSecondStages;
}

inline std::size_t second_sweep_shared_bytes(const HalfTiles& shape) {
  return (std::size_t{kSecondRows} * second_row_chunks(shape) + kSecondStages * kHalfTileRows) *
         shape.width * sizeof(__half);
}

/// Lists all centroids j of the flagged rows with score_j - error_j <= threshold: whatever is
/// nearest in exact arithmetic is among them. Blocks take pieces of 64 rows and a part of the
/// centroids; the fewer the rows, the more parts. Dynamic shared memory as above.
template <unsigned kWidth, typename T>
static __global__ void __launch_bounds__(kSecondThreads) find_candidates(const SweepTask<T> task) {
  extern __shared__ __align__(128) unsigned char s_dynamic[];
  __shared__ float s_threshold[kSecondRows], s_residual[kSecondRows], s_norm[kSecondRows];
  __shared__ float s_limit[kSecondRows]; // the threshold with the largest error of all centroids
  __shared__ uint2 s_queue[kSecondQueue];
  __shared__ unsigned s_queued;
  __shared__ unsigned long long s_first;
  const HalfTiles shape = task.points.shape;
  const bool streams = shape.chunks > kMostKeptChunks;   // a stage has its part of the rows, too
  __half* s_rows = reinterpret_cast<__half*>(s_dynamic); // [second_row_chunks][kSecondRows][kWidth]
  __half* s_stages = s_rows + std::size_t{kSecondRows} * second_row_chunks(shape) * kWidth;
  constexpr unsigned kStageSize = kHalfTileRows * kWidth;

  const unsigned flagged = task.counters->flagged;
  const unsigned pieces = (flagged + kSecondRows - 1) / kSecondRows;
  if (pieces == 0) {
    return;
  }
  const unsigned parts = min(task.centroids.tiles, max(1u, 2 * gridDim.x / pieces));
  const ScoreError largest = task.counters->largest();
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned warp_rows = warp / 4 * 32, warp_columns = warp % 4 * 32;
  if (threadIdx.x == 0) {
    s_queued = 0;
  }

  const auto append = [&](unsigned long long place, uint2 pair) {
    if (place < task.flagged.capacity) {
      task.flagged.pairs[place] = pair;
    } else {
      task.flagged.overflowed[pair.x] = true;
      task.counters->overflowed = 1;
    }
  };

  for (unsigned work = blockIdx.x; work < pieces * parts; work += gridDim.x) {
    const unsigned first_slot = work / parts * kSecondRows, part = work % parts;
    const unsigned first_tile = task.centroids.tiles * part / parts;
    const unsigned end_tile = task.centroids.tiles * (part + 1) / parts;
    const unsigned steps = (end_tile - first_tile) * shape.chunks;

    // Places behind the last flagged row repeat it; they list nothing.
    const auto fetch_rows = [&](unsigned first_chunk, unsigned chunks, __half* to) {
      constexpr unsigned kGroups = kWidth / 8; // 16 bytes each
      for (unsigned e = threadIdx.x; e < kSecondRows * chunks * kGroups; e += kSecondThreads) {
        const unsigned group = e % kGroups, r = e / kGroups % kSecondRows;
        const unsigned chunk = e / kGroups / kSecondRows;
        const std::size_t row = task.flagged.rows[min(first_slot + r, flagged - 1)];
        cp_async(
            to + (chunk * kSecondRows + r) * kWidth + HalfTiles::swizzled(kWidth, r, group) * 8,
            task.points.rounded + shape.offset(row, (first_chunk + chunk) * kWidth + group * 8));
      }
    };
    const auto fetch = [&](unsigned step) {
      if (step < steps) {
        if (streams) {
          fetch_rows(step % shape.chunks, 1, s_rows + step % kSecondStages * kSecondRows * kWidth);
        }
        const __half* from = task.centroids.rounded + first_tile * shape.tile_size() +
                             std::size_t{step} * kStageSize;
        __half* to = s_stages + step % kSecondStages * kStageSize;
        for (unsigned e = threadIdx.x * 8; e < kStageSize; e += kSecondThreads * 8) {
          cp_async(to + e, from + e);
        }
      }
      cp_async_commit();
    };

    const auto list = [&](uint2 pair) {
      const unsigned place = atomicAdd(&s_queued, 1u);
      if (place < kSecondQueue) {
        s_queue[place] = pair;
      } else { // rare: straight to the list
        append(atomicAdd(&task.counters->pairs, 1ull), pair);
      }
    };

    __syncthreads(); // the last piece is done with
    if (!streams) {
      fetch_rows(0, shape.chunks, s_rows);
    }
    for (unsigned r = threadIdx.x; r < kSecondRows; r += kSecondThreads) {
      const unsigned slot = first_slot + r;
      const bool real = slot < flagged;
      const std::size_t row = task.flagged.rows[min(slot, flagged - 1)];
      s_threshold[r] = real ? task.flagged.thresholds[slot] : -INFINITY;
      s_residual[r] = task.points.residual[row];
      s_norm[r] = task.points.norm[row];
      s_limit[r] = s_threshold[r] + largest.of(s_residual[r], s_norm[r]) * kUpwards;
      // Adding and subtracting an error may round differently; the threshold has room for neither.
      s_limit[r] += fabsf(s_limit[r]) * 0x1p-20f;
    }
    fetch(0);

    WarpSums<32> sums;
    for (unsigned step = 0; step < steps; ++step) {
      const unsigned chunk = step % shape.chunks;
      if (chunk == 0) {
#pragma unroll
        for (unsigned e = 0; e < 32; ++e) {
          sums[e / 16][e / 4 % 4][e % 4] = 0.0f;
        }
      }
      const unsigned first_column =
          (first_tile + step / shape.chunks) * kHalfTileRows + warp_columns + lane % 4 * 2;
      const bool complete = chunk + 1 == shape.chunks;
      float2 squares[4] = {}; // on their way while the products are made
      if (complete) {
#pragma unroll
        for (unsigned ni = 0; ni < 4; ++ni) {
          squares[ni] =
              *reinterpret_cast<const float2*>(task.centroids.half_squares + first_column + ni * 8);
        }
      }
      cp_async_wait<0>();
      __syncthreads(); // every thread's part of the stage is there, and the other stage is free
      fetch(step + 1);
      const unsigned rows_chunk = streams ? step % kSecondStages : chunk;
      multiply_chunk<kWidth, 32>(sums, s_rows + (rows_chunk * kSecondRows + warp_rows) * kWidth,
                                 s_stages + step % kSecondStages * kStageSize +
                                     warp_columns * kWidth,
                                 shape.steps - chunk * kWidth / 16, lane);
      if (!complete) {
        continue;
      }
      float limit[4]; // of the rows of this lane
#pragma unroll
      for (unsigned p = 0; p < 4; ++p) {
        limit[p] = s_limit[warp_rows + p / 2 * 16 + p % 2 * 8 + lane / 4];
      }
#pragma unroll
      for (unsigned ni = 0; ni < 4; ++ni) {
        const unsigned j = first_column + ni * 8;
#pragma unroll
        for (unsigned e = 0; e < 8; ++e) {
          const unsigned p = e / 2, column = e % 2;
          const float score =
              (column == 0 ? squares[ni].x : squares[ni].y) - sums[p / 2][ni][p % 2 * 2 + column];
          if (score <= limit[p]) { // rare; only now with the error of this very centroid
            const unsigned r = warp_rows + p / 2 * 16 + p % 2 * 8 + lane / 4;
            const float4 terms = task.centroids.terms[j + column];
            const ScoreError error{terms.x, terms.y, terms.z};
            if (score - error.of(s_residual[r], s_norm[r]) <= s_threshold[r] &&
                j + column < task.centroids.k) { // a threshold may be infinite
              list({first_slot + r, j + column});
            }
          }
        }
      }
    }

    __syncthreads(); // the queue is complete
    const unsigned queued = min(s_queued, kSecondQueue);
    if (queued > 0) { // one atomic for all of them
      if (threadIdx.x == 0) {
        s_first = atomicAdd(&task.counters->pairs, static_cast<unsigned long long>(queued));
      }
      __syncthreads(); // the first place is known, and all threads have read s_queued
      for (unsigned e = threadIdx.x; e < queued; e += kSecondThreads) {
        append(s_first + e, s_queue[e]);
      }
      if (threadIdx.x == 0) {
        s_queued = 0; // the barrier of the next piece comes before it is used again
      }
    }
  }
}

/// sum((x - c)^2) over the kLanes lanes that share a pair, in an order that depends on nothing
/// else.
template <unsigned kLanes, typename T>
__device__ T squared_distance(const T* x, const T* c, unsigned d, unsigned lane) {
  T squared = 0;
  for (unsigned f = lane; f < d; f += kLanes) {
    const T difference = x[f] - c[f];
    squared += difference * difference;
  }
#pragma unroll
  for (unsigned offset = kLanes / 2; offset > 0; offset /= 2) {
    squared += __shfl_xor_sync(0xffffffffu, squared, static_cast<int>(offset));
  }
  return squared;
}

/// Distance and index as one number whose order is that of distances, and of indices in a tie. A
/// double fills the word: there the least distance is found first, and then the least index that
/// has it, which a second look at the same numbers finds.
__device__ inline unsigned long long ranked(float squared, unsigned j) {
  return static_cast<unsigned long long>(__float_as_uint(squared)) << 32 | j;
}
__device__ inline unsigned long long ranked(double squared, unsigned) {
  return static_cast<unsigned long long>(__double_as_longlong(squared));
}

/// Compares the listed pairs. kLanes lanes a pair, all lanes of a warp in step. kIndices: the least
/// distances are there; finds which centroids have them.
template <unsigned kLanes, bool kIndices, typename T>
static __global__ void compare_candidates(const SweepTask<T> task) {
  const unsigned pairs = static_cast<unsigned>(
      min(task.counters->pairs, static_cast<unsigned long long>(task.flagged.capacity)));
  const unsigned lane = threadIdx.x % kLanes;
  const unsigned each = 32 / kLanes, stride = gridDim.x * (blockDim.x / 32) * each;
  const unsigned warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  for (unsigned first = warp * each; first < pairs; first += stride) {
    const unsigned place = first + threadIdx.x % 32 / kLanes;
    const uint2 pair = task.flagged.pairs[min(place, pairs - 1)];
    const std::size_t row = task.flagged.rows[pair.x], d = task.points.d;
    const T squared = squared_distance<kLanes>(
        task.points.exact + row * d, task.centroids.exact + pair.y * d, task.points.d, lane);
    if constexpr (kIndices) {
      if (lane == 0 && place < pairs && ranked(squared, 0) == task.flagged.nearest[pair.x]) {
        atomicMin(&task.flagged.nearest[task.points.n + pair.x],
                  static_cast<unsigned long long>(pair.y));
      }
    } else if (lane == 0 && place < pairs) {
      atomicMin(&task.flagged.nearest[pair.x], ranked(squared, pair.y));
      atomicAdd(&task.flagged.candidates[pair.x], 1u);
    }
  }
}

/// Compares the rows whose candidates found no room with all centroids, a block a row; in the same
/// order of additions, so that it does not matter which of its candidates a row has lost.
template <unsigned kLanes, bool kIndices, typename T>
static __global__ void __launch_bounds__(256) compare_with_all(const SweepTask<T> task) {
  if (task.counters->overflowed == 0) {
    return;
  }
  const unsigned flagged = task.counters->flagged, d = task.points.d;
  const unsigned lane = threadIdx.x % kLanes, each = 32 / kLanes;
  for (unsigned slot = blockIdx.x; slot < flagged; slot += gridDim.x) {
    if (!task.flagged.overflowed[slot]) {
      continue;
    }
    const T* row = task.points.exact + std::size_t{task.flagged.rows[slot]} * d;
    unsigned long long nearest = ~0ull;
    for (unsigned first = threadIdx.x / 32 * each; first < task.centroids.k;
         first += blockDim.x / 32 * each) {
      const unsigned j = min(first + threadIdx.x % 32 / kLanes, task.centroids.k - 1);
      const T* centroid = task.centroids.exact + std::size_t{j} * d;
      const unsigned long long rank = ranked(squared_distance<kLanes>(row, centroid, d, lane), j);
      if constexpr (kIndices) {
        nearest = rank == task.flagged.nearest[slot]
                      ? min(nearest, static_cast<unsigned long long>(j))
                      : nearest;
      } else {
        nearest = min(nearest, rank);
      }
    }
    if constexpr (kIndices) {
      if (lane == 0) {
        atomicMin(&task.flagged.nearest[task.points.n + slot], nearest);
      }
    } else if (lane == 0) {
      atomicMin(&task.flagged.nearest[slot], nearest);
      atomicAdd(&task.flagged.candidates[slot], 2u);
    }
  }
}

/// Writes the labels of the flagged rows.
template <typename T>
static __global__ void relabel_flagged_rows(const SweepTask<T> task) {
  const unsigned flagged = task.counters->flagged;
  unsigned alone = 0;
  for (unsigned slot = blockIdx.x * blockDim.x + threadIdx.x; slot < flagged;
       slot += gridDim.x * blockDim.x) {
    const std::size_t at = (kRankedInOne<T> ? 0 : task.points.n) + slot;
    task.labels[task.flagged.rows[slot]] =
        static_cast<std::int32_t>(static_cast<unsigned>(task.flagged.nearest[at]));
    alone += task.flagged.candidates[slot] == 1 ? 1 : 0;
  }
  const unsigned all = __reduce_add_sync(0xffffffffu, alone);
  if (threadIdx.x % 32 == 0 && all > 0) {
    atomicAdd(&task.counters->alone, all);
  }
}

/// The second level for rows of one shape; kThreads of a block compare and label.
template <unsigned kThreads, typename T = float>
class SecondLevel {
public:
  SecondLevel() = default;
  /// Throws std::runtime_error.
  SecondLevel(const HalfTiles& tiles, std::size_t d)
      : find_(tiles.width == 64 ? find_candidates<64, T> : find_candidates<32, T>),
        bytes_(second_sweep_shared_bytes(tiles)) {
    const auto compare = [&]<bool kIndices> {
      return Compare{d > 64 ? compare_candidates<32, kIndices, T>
                            : compare_candidates<8, kIndices, T>,
                     d > 64 ? compare_with_all<32, kIndices, T> : compare_with_all<8, kIndices, T>};
    };
    distances_ = compare.template operator()<false>();
    if constexpr (!kRankedInOne<T>) {
      indices_ = compare.template operator()<true>();
    }
    allow_shared_memory(find_, bytes_);
    blocks_ = static_cast<unsigned>(resident_blocks(find_, kSecondThreads, bytes_));
  }

  /// Lists the candidates of the flagged rows; does not block. Throws std::runtime_error.
  void find(const SweepTask<T>& task) const {
    find_<<<blocks_, kSecondThreads, bytes_>>>(task);
    check_launch("find_candidates");
  }
  /// Compares them with the flagged rows as they lie in `rows`, which may be `task`, and labels
  /// those of `task`, in the order of `stream`. Does not block. Throws std::runtime_error.
  void label(const SweepTask<T>& rows, const SweepTask<T>& task, unsigned blocks,
             cudaStream_t stream = nullptr) const {
    compare(distances_, rows, blocks, stream);
    if constexpr (!kRankedInOne<T>) {
      compare(indices_, rows, blocks, stream);
    }
    relabel_flagged_rows<<<blocks, kThreads, 0, stream>>>(task);
    check_launch("relabel_flagged_rows");
  }

private:
  using Kernel = void (*)(SweepTask<T>);
  struct Compare {
    Kernel candidates, with_all;
  };

  static void compare(const Compare& kernels, const SweepTask<T>& rows, unsigned blocks,
                      cudaStream_t stream) {
    kernels.candidates<<<blocks, kThreads, 0, stream>>>(rows);
    check_launch("compare_candidates");
    kernels.with_all<<<blocks, 256, 0, stream>>>(rows);
    check_launch("compare_with_all");
  }

  Kernel find_ = nullptr;
  Compare distances_{}, indices_{};
  std::size_t bytes_ = 0; ///< of shared memory, of a block that finds
  unsigned blocks_ = 0;   ///< of them
};

} // namespace clusterbench::cuda

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

inline constexpr unsigned kSecondRows = 64, kSecondThreads = 256;
inline constexpr unsigned kWarpColumns = 32;  ///< of a warp, and as many rows
inline constexpr unsigned kSecondQueue = 960; ///< with more, rows of 576 features had one block

/// Dynamic shared memory of a block: all chunks of the rows, or those of the stages, and stages.
template <bool kStreams, unsigned kStages>
std::size_t second_sweep_bytes(const HalfTiles& shape) {
  const std::size_t row_chunks = kStreams ? kStages : shape.chunks;
  return (kSecondRows * row_chunks + kStages * kHalfTileRows) * shape.width * sizeof(__half);
}

/// Lists all centroids j of the flagged rows with score_j - error_j <= threshold: whatever is
/// nearest in exact arithmetic is among them. Blocks take pieces of 64 rows and a part of the
/// centroids; the fewer the rows, the more parts. All stages but one are on their way. kStreams:
/// rows are read again with each tile of centroids. Dynamic shared memory as above.
template <unsigned kWidth, bool kStreams, unsigned kStages, typename T>
static __global__ void __launch_bounds__(kSecondThreads) find_candidates(const SweepTask<T> task) {
  extern __shared__ __align__(128) unsigned char s_dynamic[];
  __shared__ float s_threshold[kSecondRows], s_residual[kSecondRows], s_norm[kSecondRows];
  __shared__ float s_limit[kSecondRows]; // the threshold with the largest error of all centroids
  __shared__ uint2 s_queue[kSecondQueue];
  __shared__ unsigned s_queued;
  __shared__ unsigned long long s_first;
  let_next_kernel_begin();
  wait_for_kernels_before();
  constexpr unsigned kStageSize = kHalfTileRows * kWidth, kRowChunk = kSecondRows * kWidth;
  const HalfTiles shape = task.points.shape;
  __half* s_rows = reinterpret_cast<__half*>(s_dynamic); // [kStages or chunks][kSecondRows][kWidth]
  __half* s_stages = s_rows + (kStreams ? kStages : shape.chunks) * kRowChunk;

  const unsigned flagged = task.counters->flagged;
  const unsigned pieces = (flagged + kSecondRows - 1) / kSecondRows;
  if (pieces == 0) {
    return;
  }
  const unsigned parts = min(task.centroids.tiles, max(1u, 2 * gridDim.x / pieces));
  const ScoreError largest = task.counters->largest();
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Warps of the same columns are not of the same scheduler: there may be no others.
  const unsigned warp_rows = warp % 2 * 32, warp_columns = warp / 2 * kWarpColumns;
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

    // Places behind the last flagged row repeat it; they list nothing.
    constexpr unsigned kGroups = kWidth / 8; // 16 bytes each, of a row of a chunk
    constexpr unsigned kApart = kSecondThreads / kGroups, kEach = kSecondRows / kApart;
    const unsigned own_row = threadIdx.x / kGroups, own_group = threadIdx.x % kGroups;
    const __half* from_rows[kEach]; // of the first chunk, what this thread copies
#pragma unroll
    for (unsigned e = 0; e < kEach; ++e) {
      const unsigned slot = min(first_slot + own_row + e * kApart, flagged - 1);
      from_rows[e] = task.points.rounded + shape.offset(task.flagged.rows[slot], own_group * 8);
    }
    const auto fetch_rows = [&](unsigned chunk, __half* to) {
#pragma unroll
      for (unsigned e = 0; e < kEach; ++e) {
        const unsigned r = own_row + e * kApart;
        cp_async(to + r * kWidth + HalfTiles::swizzled(kWidth, r, own_group) * 8,
                 from_rows[e] + std::size_t{chunk} * kStageSize);
      }
    };
    const auto columns_of = [&](unsigned tile) { // what is behind the last one is not read
      return min(kHalfTileRows, task.centroids.k - tile * kHalfTileRows);
    };
    unsigned next_tile = first_tile, next_chunk = 0, next_stage = 0; // to be fetched
    const __half* from_columns =
        task.centroids.rounded + first_tile * shape.tile_size() + threadIdx.x * 8;
    const auto fetch = [&] {
      if (next_tile < end_tile) {
        if constexpr (kStreams) {
          fetch_rows(next_chunk, s_rows + next_stage * kRowChunk);
        }
        const unsigned columns = columns_of(next_tile);
        __half* to = s_stages + next_stage * kStageSize + threadIdx.x * 8;
#pragma unroll
        for (unsigned column = 0; column < kHalfTileRows; column += kApart) {
          if (column + own_row < columns) {
            cp_async(to + column * kWidth, from_columns + column * kWidth);
          }
        }
        from_columns += kStageSize;
        if (++next_chunk == shape.chunks) {
          next_chunk = 0;
          ++next_tile;
        }
      }
      next_stage = (next_stage + 1) % kStages;
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
    if constexpr (!kStreams) {
#pragma unroll 1
      for (unsigned chunk = 0; chunk < shape.chunks; ++chunk) {
        fetch_rows(chunk, s_rows + chunk * kRowChunk);
      }
    }
#pragma unroll 1
    for (unsigned stage = 0; stage + 1 < kStages; ++stage) {
      fetch();
    }
    if (const unsigned r = threadIdx.x; r < kSecondRows) {
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

    WarpSums<kWarpColumns> sums;
    unsigned tile = first_tile, chunk = 0;
#pragma unroll 1
    for (unsigned stage = 0; tile < end_tile; stage = (stage + 1) % kStages) {
      if (chunk == 0) {
#pragma unroll
        for (unsigned e = 0; e < 32; ++e) {
          sums[e / 16][e / 4 % 4][e % 4] = 0.0f;
        }
      }
      const unsigned first_column = tile * kHalfTileRows + warp_columns + lane % 4 * 2;
      const bool complete = chunk + 1 == shape.chunks;
      const bool has_columns = warp_columns < columns_of(tile);
      float2 squares[4] = {}; // on their way while the products are made
      if (complete) {
#pragma unroll
        for (unsigned ni = 0; ni < 4; ++ni) {
          squares[ni] =
              *reinterpret_cast<const float2*>(task.centroids.half_squares + first_column + ni * 8);
        }
      }
      cp_async_wait<kStages - 2>();
      __syncthreads(); // every thread's part of the stage is there, and that of the last is free
      fetch();
      if (has_columns) {
        const unsigned rows_chunk = kStreams ? stage : chunk;
        multiply_chunk<kWidth, kWarpColumns>(sums,
                                             s_rows + rows_chunk * kRowChunk + warp_rows * kWidth,
                                             s_stages + stage * kStageSize + warp_columns * kWidth,
                                             shape.steps - chunk * kWidth / 16, lane);
      }
      if (!complete) {
        ++chunk;
        continue;
      }
      chunk = 0;
      ++tile;
      if (!has_columns) {
        continue;
      }
      // Score number e is of row p = e / 2 % 4 of this lane, and of column e / 8 * 8 + e % 2.
      float scores[32];
      unsigned within = 0; // a bit each: whether it may be a candidate's
#pragma unroll
      for (unsigned e = 0; e < 32; ++e) {
        const unsigned ni = e / 8, p = e / 2 % 4;
        scores[e] =
            (e % 2 == 0 ? squares[ni].x : squares[ni].y) - sums[p / 2][ni][p % 2 * 2 + e % 2];
        const float limit = s_limit[warp_rows + p / 2 * 16 + p % 2 * 8 + lane / 4];
        within |= (scores[e] <= limit ? 1u : 0u) << e;
      }
      if (within == 0) {
        continue;
      }
      float kept[32]; // in memory, as a loop needs them; here, where few lanes come
#pragma unroll
      for (unsigned e = 0; e < 32; ++e) {
        kept[e] = scores[e];
      }
#pragma unroll 1
      for (; within != 0; within &= within - 1) { // only now with the error of this very centroid
        const unsigned e = static_cast<unsigned>(__ffs(static_cast<int>(within))) - 1;
        const unsigned r = warp_rows + e / 4 % 2 * 16 + e / 2 % 2 * 8 + lane / 4;
        const unsigned j = first_column + e / 8 * 8 + e % 2;
        const float4 terms = task.centroids.terms[j];
        const ScoreError error{terms.x, terms.y, terms.z};
        if (kept[e] - error.of(s_residual[r], s_norm[r]) <= s_threshold[r] &&
            j < task.centroids.k) { // a threshold may be infinite
          list({first_slot + r, j});
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
/// else. kAtOnce differences of a lane are on their way, and four where fewer are left. All lanes
/// of the warp must call it.
template <unsigned kLanes, unsigned kAtOnce, typename T>
__device__ T squared_distance(const T* x, const T* c, unsigned d, unsigned lane) {
  T squared = 0;
  unsigned first = lane;
  const auto add = [&]<unsigned kCount, bool kInside>() {
    T of_x[kCount], of_c[kCount];
#pragma unroll
    for (unsigned e = 0; e < kCount; ++e) {
      const unsigned f = kInside ? first + e * kLanes : min(first + e * kLanes, d - 1);
      of_x[e] = x[f];
      of_c[e] = c[f];
    }
    __syncwarp(); // all loads are on their way before the first is waited for
#pragma unroll
    for (unsigned e = 0; e < kCount; ++e) {
      const T difference = kInside || first + e * kLanes < d ? of_x[e] - of_c[e] : T{0};
      squared += difference * difference;
    }
    first += kCount * kLanes;
  };
#pragma unroll 1
  for (unsigned end = kAtOnce * kLanes; end <= d; end += kAtOnce * kLanes) {
    add.template operator()<kAtOnce, true>();
  }
#pragma unroll 1
  while (first - lane < d) {
    add.template operator()<4, false>();
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
template <unsigned kLanes, unsigned kAtOnce, bool kIndices, typename T>
__device__ void compare_candidates(const SweepTask<T>& task) {
  const unsigned pairs = static_cast<unsigned>(
      min(task.counters->pairs, static_cast<unsigned long long>(task.flagged.capacity)));
  const unsigned lane = threadIdx.x % kLanes;
  const unsigned each = 32 / kLanes, stride = gridDim.x * (blockDim.x / 32) * each;
  const unsigned warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  unsigned place = warp * each + threadIdx.x % 32 / kLanes;
  const auto pair_at = [&](unsigned at) { return task.flagged.pairs[min(at, pairs - 1)]; };
  if (place - place % each >= pairs) {
    return;
  }
  uint2 next = pair_at(place); // it and the number of its row are on their way while others are
  std::size_t next_row = task.flagged.rows[next.x];
  uint2 after = pair_at(place + stride);
  for (; place - place % each < pairs; place += stride) {
    const uint2 pair = next;
    const std::size_t row = next_row, d = task.points.d;
    next = after;
    next_row = task.flagged.rows[next.x];
    after = pair_at(place + 2 * stride);
    const T squared = squared_distance<kLanes, kAtOnce>(
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
template <unsigned kLanes, unsigned kAtOnce, bool kIndices, typename T>
__device__ void compare_with_all(const SweepTask<T>& task) {
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
      const unsigned long long rank =
          ranked(squared_distance<kLanes, kAtOnce>(row, centroid, d, lane), j);
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

/// Both of them, by blocks of kThreads.
template <unsigned kThreads, unsigned kLanes, unsigned kAtOnce, bool kIndices, typename T>
static __global__ void __launch_bounds__(kThreads) compare_flagged_rows(const SweepTask<T> task) {
  let_next_kernel_begin();
  wait_for_kernels_before();
  compare_candidates<kLanes, kAtOnce, kIndices>(task);
  if (task.counters->overflowed != 0) {
    compare_with_all<kLanes, kAtOnce, kIndices>(task);
  }
}

/// Writes the labels of the flagged rows, and clears the counters of the next pass.
template <typename T>
static __global__ void relabel_flagged_rows(const SweepTask<T> task) {
  let_next_kernel_begin();
  wait_for_kernels_before();
  if (blockIdx.x == 0 && threadIdx.x == 0 && task.next != nullptr) {
    *task.next = {};
  }
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
  SecondLevel(const HalfTiles& tiles, std::size_t d) : compare_(comparing<false>(d)) {
    choose_find(tiles);
    if constexpr (!kRankedInOne<T>) {
      find_nearest_ = comparing<true>(d);
    }
    allow_shared_memory(find_, bytes_);
    blocks_ = static_cast<unsigned>(resident_blocks(find_, kSecondThreads, bytes_));
  }

  /// Lists the candidates of the flagged rows; does not block. Throws std::runtime_error.
  void find(const SweepTask<T>& task) const {
    launch_of_pass("find_candidates", find_, {blocks_, kSecondThreads, bytes_}, task.overlaps,
                   task);
  }
  /// Compares them with the flagged rows as they lie in `rows`, which may be `task`, and labels
  /// those of `task`, in the order of `stream`. Does not block. Throws std::runtime_error.
  void label(const SweepTask<T>& rows, const SweepTask<T>& task, unsigned blocks,
             cudaStream_t stream = nullptr) const {
    const LaunchShape shape{blocks, kThreads, 0, stream};
    launch_of_pass("compare_flagged_rows", compare_, shape, task.overlaps, rows);
    if constexpr (!kRankedInOne<T>) {
      launch_of_pass("compare_flagged_rows for indices", find_nearest_, shape, task.overlaps, rows);
    }
    launch_of_pass("relabel_flagged_rows", relabel_flagged_rows<T>, shape, task.overlaps, task);
  }

private:
  using Kernel = void (*)(SweepTask<T>);

  /// The first form that a block has shared memory for.
  void choose_find(const HalfTiles& tiles) {
    const bool keeps = tiles.chunks <= 16; // more are streamed in any case
    // Of 512 and 576 features two blocks share a multiprocessor, if they have two stages each.
    const bool has_three = tiles.chunks != 8 && tiles.chunks != 9;
    if (tiles.width == 32) {
      choose<32, false, 3>(tiles);
      return;
    }
    if ((keeps && has_three && choose<64, false, 3>(tiles)) ||
        (keeps && choose<64, false, 2>(tiles))) {
      return;
    }
    if (!choose<64, true, 4>(tiles)) {
      choose<64, true, 2>(tiles);
    }
  }
  /// Whether it fits.
  template <unsigned kWidth, bool kStreams, unsigned kStages>
  bool choose(const HalfTiles& tiles) {
    constexpr std::size_t kStatic = 9 << 10; // at most
    find_ = find_candidates<kWidth, kStreams, kStages, T>;
    bytes_ = second_sweep_bytes<kStreams, kStages>(tiles);
    return bytes_ + kStatic <= shared_memory_limit();
  }
  template <bool kIndices>
  static Kernel comparing(std::size_t d) {
    return d > 512  ? compare_flagged_rows<kThreads, 32, 16, kIndices, T>
           : d > 64 ? compare_flagged_rows<kThreads, 32, 8, kIndices, T>
                    : compare_flagged_rows<kThreads, 8, 8, kIndices, T>;
  }

  Kernel find_ = nullptr, compare_ = nullptr;
  Kernel find_nearest_ = nullptr; ///< whose distances are the least; of doubles
  std::size_t bytes_ = 0;         ///< of shared memory, of a block that finds
  unsigned blocks_ = 0;           ///< of them
};

} // namespace clusterbench::cuda

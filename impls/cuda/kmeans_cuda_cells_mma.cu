// K-means with some features and up to 64 clusters: integer cells, and products on tensor cores.
//
// Changed since kmeans_cuda_cells: a warp takes 16 rows, splits their values in registers into two
//   float16 parts of 11 bits, and multiplies them with all centroids' (three products of parts, of 16
//   features and 8 clusters each): 2 d instructions a row and 64 clusters instead of 2 d a cluster.
//   Accumulators begin with |c|^2 / 2. Where one score alone is least beyond all rounding, it has the
//   label; other rows are compared by squared differences, all lanes of the warp together.
//   The lane that splits a value also adds it to cells of its own, as integers.
// Source: kmeans_cuda_cells; the parts as in kmeans_cuda_split, the bound: docs/certified.md.
// Cost per iteration: 4 n d bytes; 3/16 n k d / 8 products of a warp for 16 rows, n (10 d + 40) other
//   instructions of a warp for 32 rows; about 8 us between blocks.
// Limits: float; d <= 64, k <= 64, what shared memory holds, else refused; n < 2^31; rows are padded to
//   four features. Far from the origin all rows are compared with all centroids. Same bits in every run.
// Needs: sm_80
#include "impls/contract.hpp"
#include "impls/cuda/support/certified_bound.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/integer_sums.cuh"
#include "impls/cuda/support/one_launch.cuh"
#include "impls/cuda/support/stream.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 64, kMaxClusters = 64, kRows = 16;
/// As many threads as leave them the registers they need: 128 or 168.
template <unsigned kChunks, unsigned T>
constexpr unsigned kThreads = kChunks == 1 || (kChunks == 2 && T <= 3) ? 512 : 384;
constexpr int kBits = 20;
constexpr unsigned kPointsPerCell = 2047; // of 2^20 each, so that a cell holds their sum
constexpr float kNever = 1e38f;           // the score of a cluster behind k

struct Task {
  RunTask run;
  const float* rows; // [n to the next tile, width]
  unsigned n, d, width, k;
  unsigned copies;      // of the cells: lanes of row g add to copy g % copies
  float scale, certain; // of the float16 parts, a power of two; of two scores, 2 * their error
  const float* to_word; // [kMaxFeatures] powers of two
  long long* words;     // of GridSums
};

/// Two values as float16, and what is left of them.
__device__ inline unsigned split(float& a, float& b) {
  const __half2 both = __floats2half2_rn(a, b);
  const float2 back = __half22float2(both);
  a -= back.x;
  b -= back.y;
  return *reinterpret_cast<const unsigned*>(&both);
}

/// The same float16 values; volatile, so that the compiler does not keep those it made before.
__device__ inline unsigned rounded_again(float a, float b) {
  unsigned both = 0;
  asm volatile("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(both) : "f"(a), "f"(b));
  return both;
}

__device__ inline float4 scaled(const float4& v, float by) {
  return make_float4(v.x * by, v.y * by, v.z * by, v.w * by);
}

/// sums (16 x 8) += a (16 x 16) b (16 x 8). Not volatile: products may change places.
__device__ inline void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Lane (g, t) = (lane / 4, lane % 4) of a warp has rows g and g + 8 of a tile, and of every 16 features
/// four: 4 t ... 4 t + 3. The order of features in a product does not matter, so these are what
/// mma.sync calls 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
template <unsigned kChunks>
using Tile = float4[2][kChunks];

template <unsigned kChunks>
__device__ void fetch_tile(const Task& task, unsigned tile, Tile<kChunks>& x) {
  const unsigned lane = threadIdx.x % 32, f = lane % 4 * 4;
  const float* row = task.rows + (std::size_t{tile} * kRows + lane / 4) * task.width + f;
#pragma unroll
  for (unsigned e = 0; e < 2 * kChunks; ++e) {
    const unsigned h = e / kChunks, c = e % kChunks;
    x[h][c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (c + 1 < kChunks || c * 16 + f < task.width) {
      x[h][c] = __ldg(reinterpret_cast<const float4*>(row + h * 8 * task.width + c * 16));
    }
  }
}

/// What a block has in shared memory.
struct Shared {
  uint4* parts; // [T, kChunks, 32]: high and low parts of -c, as the lanes of a product want them
  float* half_squares; // [8 T]
  float* centroids;    // [8 T, stride], in the data's own units
  float* to_word;      // [kMaxFeatures]
  long long* rests;    // [k, kMaxFeatures]
  int* cells;          // [k, copies, 4 lanes, 8 kChunks + 1]
};

/// Labels of the tile's rows g and g + 8, known to their four lanes.
template <unsigned kChunks, unsigned T>
__device__ void find_labels(const Task& task, const Shared& shared, unsigned tile,
                            const Tile<kChunks>& x, unsigned (&label)[2]) {
  const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, stride = task.width + 4;
  // Of rows g, g, g + 8, g + 8 and clusters 8 e + 2 t, ... + 1, ... , ... + 1. What is small is added up
  // first, so that the tensor cores cut less of it.
  float score[T][4] = {};
#pragma unroll
  for (unsigned c = 0; c < kChunks; ++c) {
    unsigned high[4], low[4];
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      float4 v = scaled(x[h][c], task.scale);
      high[h] = split(v.x, v.y);
      high[h + 2] = split(v.z, v.w);
      low[h] = split(v.x, v.y);
      low[h + 2] = split(v.z, v.w);
    }
#pragma unroll
    for (unsigned e = 0; e < T; ++e) {
      const uint4 part = shared.parts[(e * kChunks + c) * 32 + lane];
      multiply(score[e], low, part.x, part.y);
      multiply(score[e], high, part.z, part.w);
    }
  }
  __syncwarp(); // holds the compiler back from loading all parts at once, for want of registers
#pragma unroll
  for (unsigned c = 0; c < kChunks; ++c) {
    unsigned high[4]; // made once more: kept, they would be too many registers
#pragma unroll
    for (unsigned h = 0; h < 2; ++h) {
      const float4 v = scaled(x[h][c], task.scale);
      high[h] = rounded_again(v.x, v.y);
      high[h + 2] = rounded_again(v.z, v.w);
    }
#pragma unroll
    for (unsigned e = 0; e < T; ++e) {
      const uint4* part = shared.parts + (e * kChunks + c) * 32 + lane;
      const uint2 of_high = *reinterpret_cast<const uint2*>(part);
      multiply(score[e], high, of_high.x, of_high.y);
    }
  }
#pragma unroll
  for (unsigned e = 0; e < T; ++e) {
    const float2 half = *reinterpret_cast<const float2*>(shared.half_squares + 8 * e + 2 * t);
    score[e][0] += half.x, score[e][1] += half.y, score[e][2] += half.x, score[e][3] += half.y;
  }
#pragma unroll
  for (unsigned h = 0; h < 2; ++h) {
    float least = fminf(score[0][2 * h], score[0][2 * h + 1]);
#pragma unroll
    for (unsigned e = 1; e < T; ++e) {
      least = fminf(least, fminf(score[e][2 * h], score[e][2 * h + 1]));
    }
    least = fminf(least, __shfl_xor_sync(kAllLanes, least, 1));
    least = fminf(least, __shfl_xor_sync(kAllLanes, least, 2)) + task.certain;
    unsigned close = 0; // how many are as close as rounding allows, times 256, and their numbers
#pragma unroll
    for (unsigned e = 0; e < 2 * T; ++e) {
      if (score[e / 2][2 * h + e % 2] <= least) {
        close += 256 + e / 2 * 8 + e % 2;
      }
    }
    close += close / 256 * 2 * t;
    close += __shfl_xor_sync(kAllLanes, close, 1);
    close += __shfl_xor_sync(kAllLanes, close, 2);
    label[h] = close % 256;
    // All lanes together compare a row that is open with all centroids; ties to the lowest.
    unsigned open = __ballot_sync(kAllLanes, t == 0 && close / 256 != 1);
    for (; open != 0; open &= open - 1) {
      const unsigned of_row = (__ffs(static_cast<int>(open)) - 1) / 4;
      const unsigned row = min(tile * kRows + of_row + h * 8, task.n - 1);
      const float* values = task.rows + std::size_t{row} * task.width;
      float nearest = INFINITY;
      unsigned found = 0;
#pragma unroll 1
      for (unsigned j = lane; j < task.k; j += 32) {
        float squared = 0.0f;
        for (unsigned f = 0; f < task.width; f += 4) {
          const float4 v = __ldg(reinterpret_cast<const float4*>(values + f));
          const float4 m = *reinterpret_cast<const float4*>(shared.centroids + j * stride + f);
          squared += (v.x - m.x) * (v.x - m.x);
          squared += (v.y - m.y) * (v.y - m.y);
          squared += (v.z - m.z) * (v.z - m.z);
          squared += (v.w - m.w) * (v.w - m.w);
        }
        found = squared < nearest ? j : found;
        nearest = fminf(nearest, squared);
      }
#pragma unroll
      for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(kAllLanes, nearest, offset);
        const unsigned its = __shfl_xor_sync(kAllLanes, found, offset);
        found = other < nearest || (other == nearest && its < found) ? its : found;
        nearest = fminf(nearest, other);
      }
      label[h] = g == of_row ? found : label[h];
    }
  }
}

/// Adds the lane's values of a row to its cells.
template <unsigned kChunks>
__device__ void add_row(const Task& task, const Shared& shared, const float4 (&x)[kChunks],
                        unsigned label) {
  constexpr unsigned kOwn = 4 * kChunks;
  const unsigned lane = threadIdx.x % 32, t = lane % 4;
  const unsigned copy = label * task.copies + (lane / 4 & (task.copies - 1));
  int* cells = shared.cells + (copy * 4 + t) * (2 * kOwn + 1);
  bool whole = true;
  float beneath[kOwn];
#pragma unroll
  for (unsigned c = 0; c < kChunks; ++c) {
    const float4 to_word = *reinterpret_cast<const float4*>(shared.to_word + c * 16 + t * 4);
    const float of[4] = {to_word.x, to_word.y, to_word.z, to_word.w};
    const float v[4] = {x[c].x, x[c].y, x[c].z, x[c].w};
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      const auto words = Words<kBits>::of(v[e], of[e]);
      beneath[c * 4 + e] = words.beneath;
      whole = whole && words.beneath == 0.0f;
      atomicAdd(&cells[c * 4 + e], words.first); // warps share the cells
      atomicAdd(&cells[kOwn + c * 4 + e], words.second);
    }
  }
  if (t == 0) {
    atomicAdd(&cells[2 * kOwn], 1);
  }
  if (!whole) {
#pragma unroll
    for (unsigned e = 0; e < kOwn; ++e) {
      if (beneath[e] != 0.0f) {
        add_integer(&shared.rests[label * kMaxFeatures + e / 4 * 16 + t * 4 + e % 4],
                    __float2ll_rn(beneath[e] * kBeneath));
      }
    }
  }
}

/// Adds the block's sums and counts, [k, d + 1], to those of all blocks, and clears the cells.
template <unsigned kChunks, unsigned T>
__device__ void drain_cells(const Task& task, const Shared& shared, const GridSums& sums) {
  constexpr unsigned kOwn = 4 * kChunks, kWords = 2 * kOwn + 1;
  for (unsigned v = threadIdx.x; v < task.k * (task.d + 1); v += kThreads<kChunks, T>) {
    const unsigned j = v / (task.d + 1), f = v % (task.d + 1);
    const bool counts = f == task.d;
    int* cell = shared.cells + j * task.copies * 4 * kWords +
                (counts ? 2 * kOwn : f % 16 / 4 * kWords + f / 16 * 4 + f % 4);
    long long first = 0, second = 0, rest = 0;
    for (unsigned c = 0; c < task.copies; ++c, cell += 4 * kWords) {
      first += cell[0];
      cell[0] = 0;
      if (!counts) {
        second += cell[kOwn];
        cell[kOwn] = 0;
      }
    }
    if (!counts) {
      first *= 1 << kBits;
      rest = shared.rests[j * kMaxFeatures + f];
      shared.rests[j * kMaxFeatures + f] = 0;
    }
    sums.add(v, first + second, rest);
  }
}

/// Centroids as their parts and half squares: the threads of a block share the work.
template <unsigned kChunks, unsigned T>
__device__ void split_centroids(const Task& task, const Shared& shared) {
  const unsigned stride = task.width + 4;
  for (unsigned e = threadIdx.x; e < T * kChunks * 32; e += kThreads<kChunks, T>) {
    const unsigned lane = e % 32, j = e / 32 / kChunks * 8 + lane / 4;
    const unsigned f = e / 32 % kChunks * 16 + lane % 4 * 4;
    float4 c = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (f < task.width) {
      c = *reinterpret_cast<const float4*>(shared.centroids + j * stride + f);
    }
    c = make_float4(-c.x * task.scale, -c.y * task.scale, -c.z * task.scale, -c.w * task.scale);
    uint4 part;
    part.x = split(c.x, c.y);
    part.y = split(c.z, c.w);
    part.z = split(c.x, c.y);
    part.w = split(c.z, c.w);
    shared.parts[e] = part;
  }
  for (unsigned e = threadIdx.x; e < T * 32; e += kThreads<kChunks, T>) { // four lanes a centroid
    double squares = 0.0;
    for (unsigned f = e % 4; f < task.width; f += 4) {
      const double c = static_cast<double>(shared.centroids[e / 4 * stride + f] * task.scale);
      squares += c * c;
    }
    squares = over_lanes<4>(squares);
    shared.half_squares[e / 4] = e / 4 < task.k ? static_cast<float>(0.5 * squares) : kNever;
  }
}

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: see Shared.
template <unsigned kChunks, unsigned T>
__global__ void __launch_bounds__(kThreads<kChunks, T>, 1) cluster_rows(const Task task) {
  constexpr unsigned kWarps = kThreads<kChunks, T> / 32;
  extern __shared__ __align__(16) uint4 s_parts[];
  __shared__ double s_wanted[kWarps], s_shifts[kWarps];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, stride = task.width + 4;
  Shared shared{};
  shared.parts = s_parts;
  shared.half_squares = reinterpret_cast<float*>(s_parts + T * kChunks * 32);
  shared.to_word = shared.half_squares + 8 * T;
  shared.centroids = shared.to_word + kMaxFeatures;
  shared.rests = reinterpret_cast<long long*>(shared.centroids + 8 * T * stride);
  shared.cells = reinterpret_cast<int*>(shared.rests + task.k * kMaxFeatures);
  GridSums sums(task.words, task.k * (task.d + 1), task.n >> (62 - 2 * kBits) > 0);

  for (unsigned e = threadIdx.x; e < 8 * T * stride; e += kThreads<kChunks, T>) {
    const unsigned j = e / stride, f = e % stride; // zero behind k and d
    shared.centroids[e] = j < task.k && f < task.d ? task.run.initial[j * task.d + f] : 0.0f;
  }
  for (unsigned e = threadIdx.x; e < kMaxFeatures; e += kThreads<kChunks, T>) {
    shared.to_word[e] = task.to_word[e];
  }
  for (unsigned e = threadIdx.x; e < task.k * kMaxFeatures; e += kThreads<kChunks, T>) {
    shared.rests[e] = 0;
  }
  for (unsigned e = threadIdx.x; e < task.k * task.copies * 4 * (8 * kChunks + 1);
       e += kThreads<kChunks, T>) {
    shared.cells[e] = 0;
  }
  const unsigned tiles = (task.n + kRows - 1) / kRows;
  const unsigned round =
      task.copies * kPointsPerCell / (kRows * kWarps); // steps until cells are full
  const bool wants_fact = task.run.wants_fact();
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    split_centroids<kChunks, T>(task, shared);
    __syncthreads(); // the parts are there
    const bool keep_labels =
        task.run.rule != StopRule::Kind::iterations || pass + 1 == task.run.max_iterations;
    // Every second pass goes backwards: what was read last is still in L2.
    const auto tile_of = [&](unsigned i) { return pass % 2 == 0 ? i : tiles - 1 - i; };
    double wanted = 0.0;
    Tile<kChunks> x, next;
    unsigned step = 0;
    if (blockIdx.x * kWarps + warp < tiles) {
      fetch_tile<kChunks>(task, tile_of(blockIdx.x * kWarps + warp), x);
    }
    for (unsigned first = blockIdx.x * kWarps; first < tiles; first += gridDim.x * kWarps) {
      const unsigned i = first + warp;
      if (i < tiles) {
        const unsigned tile = tile_of(i);
        unsigned label[2];
        find_labels<kChunks, T>(task, shared, tile, x, label);
        if (i + gridDim.x * kWarps < tiles) { // arrives while this tile is added
          fetch_tile<kChunks>(task, tile_of(i + gridDim.x * kWarps), next);
        }
#pragma unroll
        for (unsigned h = 0; h < 2; ++h) {
          const unsigned row = tile * kRows + h * 8 + lane / 4;
          float squared = 0.0f;
          if (task.run.rule == StopRule::Kind::loss) {
#pragma unroll
            for (unsigned c = 0; c < kChunks; ++c) {
              const unsigned f = c * 16 + lane % 4 * 4;
              if (f < task.width) {
                const float4 m =
                    *reinterpret_cast<const float4*>(shared.centroids + label[h] * stride + f);
                const float4 v = x[h][c];
                squared += (v.x - m.x) * (v.x - m.x) + (v.y - m.y) * (v.y - m.y) +
                           (v.z - m.z) * (v.z - m.z) + (v.w - m.w) * (v.w - m.w);
              }
            }
            squared = over_lanes<4>(squared);
          }
          if (row < task.n) {
            add_row<kChunks>(task, shared, x[h], label[h]);
            if (keep_labels && lane % 4 == 0) {
              std::int32_t& kept = task.run.labels[row];
              const auto now = static_cast<std::int32_t>(label[h]);
              if (task.run.rule == StopRule::Kind::loss) {
                wanted += static_cast<double>(sqrtf(squared));
              } else if (task.run.rule == StopRule::Kind::labels) {
                wanted += kept != now ? 1.0 : 0.0;
              }
              kept = now;
            }
          }
          __syncwarp(); // lanes without a row have not waited
        }
#pragma unroll
        for (unsigned e = 0; e < 2 * kChunks; ++e) {
          x[e / kChunks][e % kChunks] = next[e / kChunks][e % kChunks];
        }
      }
      if (++step % round == 0) {
        __syncthreads(); // the cells have the rows of all warps
        drain_cells<kChunks, T>(task, shared, sums);
        __syncthreads(); // the cells are empty again
      }
    }
    __syncthreads(); // the cells have the rows of all warps
    drain_cells<kChunks, T>(task, shared, sums);
    if (wants_fact) {
      wanted = over_lanes<32>(wanted);
      if (lane == 0) {
        s_wanted[warp] = wanted;
      }
      __syncthreads(); // those of all warps are there
      if (threadIdx.x == 0) {
        for (unsigned w = 1; w < kWarps; ++w) {
          wanted += s_wanted[w];
        }
        sums.set_fact(wanted);
      }
    }
    sums.finish();

    // All threads of all blocks get the same bits, so they take the same decision.
    double shift = 0.0;
#pragma unroll 4
    for (unsigned v = threadIdx.x; v < task.k * task.d; v += kThreads<kChunks, T>) {
      const unsigned j = v / task.d, f = v % task.d;
      float& centroid = shared.centroids[j * stride + f];
      const double size = sums.sum(j * (task.d + 1) + task.d);
      const double sum = sums.sum(j * (task.d + 1) + f), old = static_cast<double>(centroid);
      const double unit = static_cast<double>(shared.to_word[f]) * (1 << kBits);
      if (size > 0.0) { // an empty cluster stays
        centroid = static_cast<float>(sum / (unit * size));
      }
      const double moved = static_cast<double>(centroid) - old;
      shift += moved * moved;
      if (blockIdx.x == 0) {
        task.run.centroids[v] = centroid;
        if (task.run.history != nullptr) {
          task.run.history[pass * task.k * task.d + v] = centroid;
        }
      }
    }
    shift = over_lanes<32>(shift);
    if (lane == 0) {
      s_shifts[warp] = shift;
    }
    const double fact = wants_fact ? sums.fact() : 0.0;
    __syncthreads(); // the centroids and shifts are there
    shift = 0.0;
    for (unsigned w = 0; w < kWarps; ++w) {
      shift += s_shifts[w];
    }
    ++pass;
    task.run.note_time(pass);
    last = task.run.is_last(pass, fact, previous, shift);
    previous = fact;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *task.run.iterations = pass;
  }
}

struct Size {
  unsigned chunks, tiles, threads;
  void (*kernel)(const Task);
};
template <unsigned kChunks, unsigned T>
constexpr Size kSize{kChunks, T, kThreads<kChunks, T>, cluster_rows<kChunks, T>};
constexpr std::array kSizes{// the first that is large enough is taken
                            kSize<1, 3>, kSize<2, 3>, kSize<3, 3>, kSize<4, 3>,
                            kSize<1, 8>, kSize<2, 8>, kSize<3, 8>, kSize<4, 8>};
constexpr std::size_t kStatic = 1024; // of shared memory, at most

/// The kernel for a shape, and bytes of shared memory beside the cells and of one copy of them.
struct Plan {
  const Size* size;
  std::size_t width, beside, copy;

  static Plan of(std::size_t d, std::size_t k) {
    const Size* size = std::ranges::find_if(
        kSizes, [=](const Size& one) { return one.chunks * 16 >= d && one.tiles * 8 >= k; });
    const std::size_t width = ceil_div(d, 4) * 4;
    return {size, width,
            size->tiles * size->chunks * 32 * sizeof(uint4) +
                (8 * size->tiles * (width + 5) + kMaxFeatures) * sizeof(float) +
                k * kMaxFeatures * sizeof(long long),
            k * 4 * (8 * size->chunks + 1) * sizeof(int)};
  }
};

class KmeansCudaCellsMma final : public Variant<float> {
public:
  std::string refuse(const Problem<float>& problem) const override {
    if (problem.n > 0x7fffffff) {
      return "more than 2^31 - 1 points";
    }
    if (lacks_clusters()) {
      return "the device has no clusters of blocks (compute capability 9.0)";
    }
    if (problem.d > kMaxFeatures || problem.k > kMaxClusters) {
      return "k = " + std::to_string(problem.k) + ", d = " + std::to_string(problem.d) +
             ": at most " + std::to_string(kMaxClusters) + " clusters of " +
             std::to_string(kMaxFeatures) + " features";
    }
    const Plan plan = Plan::of(problem.d, problem.k);
    if (plan.beside + plan.copy + kStatic > shared_memory_limit()) {
      return "needs " + std::to_string(plan.beside + plan.copy + kStatic) +
             " bytes of shared memory, there are " + std::to_string(shared_memory_limit());
    }
    return {};
  }

  void prepare(const Problem<float>& problem) override {
    const Plan plan = Plan::of(problem.d, problem.k);
    kernel_ = plan.size->kernel;
    stream_ = Stream::create();
    launch_.prepare(problem, stream_);
    d_rows_ = DeviceBuffer<float>(ceil_div(problem.n, kRows) * kRows * plan.width);
    d_rows_.zero(stream_);
    check(cudaMemcpy2DAsync(d_rows_.data(), plan.width * sizeof(float), problem.points.data(),
                            problem.d * sizeof(float), problem.d * sizeof(float), problem.n,
                            cudaMemcpyHostToDevice, stream_),
          "cudaMemcpy2DAsync of the rows");
    const std::size_t room = shared_memory_limit() - kStatic;
    const std::size_t copies =
        std::bit_floor(std::min<std::size_t>(8, (room - plan.beside) / plan.copy));
    // A block that takes all shared memory is alone on its multiprocessor.
    shape_ = {.blocks = 0, .threads = plan.size->threads, .cluster = 1, .shared_bytes = room};
    shape_.blocks = static_cast<unsigned>(
        std::min<std::size_t>(resident_in_clusters(kernel_, shape_),
                              ceil_div(problem.n, kRows * plan.size->threads / 32)));
    d_words_ = DeviceBuffer<long long>(GridSums::words(problem.k * (problem.d + 1), shape_.blocks));
    d_to_word_ = DeviceBuffer<float>(kMaxFeatures);
    task_ = {.run = {},
             .rows = d_rows_.data(),
             .n = static_cast<unsigned>(problem.n),
             .d = static_cast<unsigned>(problem.d),
             .width = static_cast<unsigned>(plan.width),
             .k = static_cast<unsigned>(problem.k),
             .copies = static_cast<unsigned>(copies),
             .scale = 0.0f,
             .certain = 0.0f,
             .to_word = d_to_word_.data(),
             .words = d_words_.data()};
    set_scales(problem);
    stream_.synchronize();
  }

  void run(Observer<float>& observer) override {
    d_words_.zero(stream_);
    launch_.run(observer, kernel_, task_, shape_, stream_);
  }

  void fetch(Result<float>& result) override { launch_.fetch(result, stream_); }

private:
  /// What follows from the magnitudes of the data.
  void set_scales(const Problem<float>& problem) {
    std::array<double, kMaxFeatures> largest{};
    const auto longest = [&](std::span<const float> rows) {
      double most = 0.0;
      for (std::size_t i = 0; i < rows.size(); i += problem.d) {
        double squared = 0.0;
        for (std::size_t f = 0; f < problem.d; ++f) {
          const double value = static_cast<double>(rows[i + f]);
          squared += value * value;
          largest[f] = std::max(largest[f], std::abs(value));
        }
        most = std::max(most, squared);
      }
      return std::sqrt(most);
    };
    // Means are no longer than the longest point, nor are empty clusters than the initial centroids.
    const double of_points = longest(problem.points);
    std::array<float, kMaxFeatures> to_word{};
    for (std::size_t f = 0; f < kMaxFeatures; ++f) {
      // Tiny features have a unit of 2^-120, which is finite; what they lose is beneath, and kept.
      const int exponent = largest[f] > 0.0 ? std::ilogb(largest[f]) + 1 : 0;
      to_word[f] = std::ldexp(1.0f, kBits - std::max(exponent, -100));
    }
    d_to_word_.upload(to_word, stream_);
    const double of_centroids = std::max(of_points, longest(problem.centroids));
    // Vectors no longer than 64: no part or score overflows, and parts reach far down.
    const double power = of_centroids > 0.0
                             ? std::ldexp(1.0, 5 - std::clamp(std::ilogb(of_centroids), -110, 127))
                             : 1.0;
    const float x = static_cast<float>(1.001 * power * of_points);
    const float c = static_cast<float>(1.001 * power * of_centroids);
    task_.scale = static_cast<float>(power);
    task_.certain = 2.0f * split_error_small_first(problem.d).of(x, c);
  }

  void (*kernel_)(const Task) = nullptr;
  Task task_{};
  ClusterLaunch shape_{};
  Stream stream_;
  OneLaunch launch_;
  DeviceBuffer<float> d_rows_, d_to_word_; // [n, width]
  DeviceBuffer<long long> d_words_;
};

const Registration
    registration({.name = "kmeans_cuda_cells_mma",
                  .idea = "split float16 products, sums in integer cells, one launch",
                  .source = "kmeans_cuda_cells and kmeans_cuda_split",
                  .device = Device::gpu,
                  .max_d = kMaxFeatures,
                  .max_k = kMaxClusters,
                  .previous = "kmeans_cuda_cells"},
                 f32_only<KmeansCudaCellsMma>());

} // namespace
} // namespace clusterbench

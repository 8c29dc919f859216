// Copies of points and centroids in float16, and the views of them that kernels take; how kernels
// of a pass are launched.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

namespace clusterbench::cuda {

// ---- tiles
//
// Rows of float16 in tiles that go to shared memory as they are: one contiguous copy a piece, and
// no bank conflict where ldmatrix or wgmma read it.

inline constexpr unsigned kHalfTileRows = 128;
inline constexpr unsigned kTailWidth = 16; ///< features

/// [tiles][chunks][kHalfTileRows][width]: a chunk holds `width` features of kHalfTileRows rows. In
/// a row, groups of 8 halves (16 bytes) are permuted by the low bits of the row: the 128-, 64- and
/// 32-byte swizzles of the PTX manual.
struct HalfTiles {
  unsigned width = 0;  ///< features of a chunk: 16, 32 or 64
  unsigned chunks = 0; ///< chunks of a row
  unsigned steps = 0;  ///< groups of 16 features that are not all padding

  static HalfTiles of(std::size_t d) {
    const unsigned width = d <= 32 ? 32 : 64;
    return {width, static_cast<unsigned>((d + width - 1) / width),
            static_cast<unsigned>((d + 15) / 16)};
  }
  /// Of the further features that TailedScores has.
  __host__ __device__ static HalfTiles of_tails() { return {kTailWidth, 1, 1}; }
  __host__ __device__ std::size_t chunk_size() const { return std::size_t{kHalfTileRows} * width; }
  __host__ __device__ std::size_t tile_size() const { return chunk_size() * chunks; }
  std::size_t size(std::size_t rows) const {
    return (rows + kHalfTileRows - 1) / kHalfTileRows * tile_size();
  }
  /// The permutation: where in a row of 64, 32 or 16 halves the group of 8 halves `group` is.
  __host__ __device__ static unsigned swizzled(unsigned width, unsigned row, unsigned group) {
    return width == 64   ? group ^ (row & 7)
           : width == 32 ? group ^ (row >> 1 & 3)
                         : group ^ (row >> 2 & 1);
  }
  __device__ std::size_t offset(std::size_t row, unsigned feature) const {
    const unsigned in_tile = static_cast<unsigned>(row % kHalfTileRows);
    const unsigned in_chunk = feature % width;
    return row / kHalfTileRows * tile_size() + feature / width * chunk_size() + in_tile * width +
           swizzled(width, in_tile, in_chunk / 8) * 8 + in_chunk % 8;
  }
};

inline constexpr float kMostHalfSquare = 65504.0f * 0x1p15f; ///< that the next one has room for

/// |c'|^2 / 2 as 2^15 high + 2^4 middle + low: to 2^-33 of itself and 2^-25.
struct HalfSquare {
  __half high, middle, low;

  __device__ explicit HalfSquare(float whole) : high(__float2half(whole * 0x1p-15f)) {
    const float rest = whole - __half2float(high) * 0x1p15f; // exact, as all of these are
    middle = __float2half(rest * 0x1p-4f);
    low = __float2half(rest - __half2float(middle) * 0x1p4f);
  }
};

/// |w|^2 / 2 of a point of norm |w| or a little more, in units of 2^15: a score with it is not
/// negative but by rounding.
__device__ inline __half row_constant(float norm) {
  return __float2half_ru(0.5f * norm * norm * 0x1p-15f);
}

// ---- views
//
// What the kernels for many clusters pass to one another: points and centroids in float and as
// rounded tiles, and the rows that no first level could decide.

inline constexpr float kFarAway = 1e38f;    ///< score of a centroid that does not exist
inline constexpr float kUpwards = 1.00001f; ///< more than the roundings of a few operations

/// x' = (x - mean) * scale is what is rounded; scores are |c'|^2 / 2 - x'.c'.
template <typename T = float>
struct Normalization {
  const T* mean;      ///< [d]
  const double scale; ///< a power of two
};

/// Points and centroids as they came are of type T; what was made of them is float16, with norms in
/// float.
template <typename T = float>
struct PointsView {
  std::size_t n;
  unsigned d;
  HalfTiles shape;
  const T* exact;        ///< [n, d]
  const __half* rounded; ///< tiles; rows behind n are zero
  const float* residual; ///< [n] |x' - rounded|, or a little more
  const float* norm;     ///< [n] |rounded|, or a little more
};

template <typename T = float>
struct CentroidsView {
  unsigned k;
  unsigned tiles;            ///< of kHalfTileRows centroids; those behind k are zero and far away
  const T* exact;            ///< [k, d]
  const __half* rounded;     ///< tiles
  const float* half_squares; ///< [tiles * kHalfTileRows] |c'|^2 / 2
  const float4* terms;       ///< the ScoreError, and |c'|^2 / 2
  const __half* tails;       ///< tiles: what makes whole scores of products, see TailedScores
};

/// Largest terms of all centroids, as the bits of floats (which are not negative, so their order is
/// that of integers), and what happened to the rows of a pass.
struct PassCounters {
  unsigned of_residual, of_norm, fixed;
  unsigned flagged;         ///< rows whose gap is inside the bound of the first level
  unsigned long long pairs; ///< candidates of such rows: up to n k
  unsigned alone;           ///< flagged rows of which the second level left one candidate
  unsigned overflowed;      ///< flagged rows whose candidates found no room: compared with all
  unsigned moved;           ///< rows whose label changed
  unsigned left_alone;      ///< rows that were compared with no centroid
  unsigned fastest;         ///< bits of the farthest that a centroid has moved, as a float

  __device__ ScoreError largest() const {
    return {__uint_as_float(of_residual), __uint_as_float(of_norm), __uint_as_float(fixed)};
  }
  /// Tells what has happened to `rows` rows.
  template <typename T>
  void report(Observer<T>& observer, std::size_t rows) const {
    const double n = static_cast<double>(rows);
    observer.counter("certified_at_once", (n - flagged) / n); // rows left alone are certified, too
    observer.counter("certified_at_second_level", alone / n);
    observer.counter(sizeof(T) == sizeof(float) ? "recomputed_in_float32" : "recomputed_in_float64",
                     (flagged - alone) / n);
    observer.counter("candidates", static_cast<double>(pairs));
    observer.counter("moved", moved / n);
  }
};

/// A flagged row's number is its slot.
struct FlaggedView {
  unsigned* rows;       ///< [n]
  float* thresholds;    ///< [n] no less than the exact score of the nearest centroid
  unsigned* candidates; ///< [n] how many
  unsigned long long*
      nearest;      ///< [n], or [2, n], see ranked(): least distances, and which centroids
  bool* overflowed; ///< [n]
  uint2* pairs;     ///< [capacity] slot and centroid
  unsigned capacity;
};

template <typename T = float>
struct SweepTask {
  PointsView<T> points;
  CentroidsView<T> centroids;
  FlaggedView flagged;
  PassCounters* counters;
  std::int32_t* labels; ///< [n]
  Normalization<T> frame;
  PassCounters* next = nullptr; ///< to be cleared, or null
  bool overlaps = false;        ///< whether its kernels do, see launch_of_pass()
};

/// What a sweep has to know that leaves rows alone.
struct PassBefore {
  std::size_t passes;         ///< before this one, of this run
  const std::int32_t* labels; ///< [n] of the last one, or -1
  const double* shifts;       ///< [k] of the centroids since then, see place_centroids()
};

// ---- the kernels of a pass
//
// They may begin before the one before them in the stream has ended, on devices of compute
// capability 9.0 and later (programmatic dependent launch): a pass waits less for launches.

/// Waits until every kernel before this one in the stream has ended, and what it wrote is there:
/// the one before this does so, too, in all of its blocks, and so on. A kernel that overlaps must
/// do it before it touches global memory that others write. Returns at once in others.
__device__ inline void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel take multiprocessors that this one leaves, once all blocks have called it.
/// Of the next kernel, too, wait_for_kernels_before() waits until this one has ended.
__device__ inline void let_next_kernel_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

struct LaunchShape {
  dim3 blocks;
  unsigned threads; ///< of a block
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

/// Whether kernels of this build, such as `kernel`, wait for those before them on this device: code
/// for compute capability 8, say, does not. Throws std::runtime_error.
template <typename Kernel>
bool may_overlap(Kernel kernel) {
  cudaFuncAttributes built{};
  check(cudaFuncGetAttributes(&built, kernel), "cudaFuncGetAttributes");
  return built.ptxVersion >= 90; // such code runs on no older device
}

/// Launches `kernel`, which overlaps the one before it if `overlaps`: may_overlap() says whether it
/// can. Does not block. Throws std::runtime_error.
template <typename... Parameters, typename... Arguments>
void launch_of_pass(std::string_view name, void (*kernel)(Parameters...), const LaunchShape& shape,
                    bool overlaps, Arguments&&... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = shape.threads;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

/// An owned event, for order alone. A default-constructed one calls nothing. All may throw
/// std::runtime_error.
class Event {
public:
  Event() = default;
  static Event create() {
    cudaEvent_t made = nullptr;
    check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    Event event;
    event.handle_.reset(made);
    return event;
  }
  void record(cudaStream_t stream = nullptr) {
    check(cudaEventRecord(handle_.get(), stream), "cudaEventRecord");
  }
  /// What comes next in the stream waits for the moment last recorded, if there is one.
  void hold(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, handle_.get()), "cudaStreamWaitEvent");
  }

private:
  struct Destroy {
    void operator()(cudaEvent_t handle) const { static_cast<void>(cudaEventDestroy(handle)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> handle_;
};

/// Whether a squared distance and a centroid's number fit one word, see ranked().
template <typename T>
inline constexpr bool kRankedInOne = sizeof(T) == sizeof(float);

/// The first of `count` consecutive places of a counter. All lanes of the warp must call it, with
/// the same count.
__device__ inline unsigned take_places(unsigned count, unsigned* counter) {
  unsigned first = 0;
  if (count != 0 && threadIdx.x % 32 == 0) {
    first = atomicAdd(counter, count);
  }
  return __shfl_sync(0xffffffffu, first, 0);
}

/// A place of a counter for each lane of `askers`. All lanes of the warp must call it.
__device__ inline unsigned take_place_among(unsigned askers, unsigned* counter) {
  const unsigned before = askers & ((1u << threadIdx.x % 32) - 1);
  return take_places(static_cast<unsigned>(__popc(askers)), counter) +
         static_cast<unsigned>(__popc(before));
}
/// The same for each lane that asks.
__device__ inline unsigned take_place(bool asks, unsigned* counter) {
  return take_place_among(__ballot_sync(0xffffffffu, asks), counter);
}

/// Gives a row that the first level could not decide its place in the list of those. `threshold` is
/// no less than the nearest centroid's exact score.
template <typename T>
__device__ void flag(const SweepTask<T>& task, unsigned slot, unsigned row, float threshold) {
  task.flagged.rows[slot] = row;
  task.flagged.thresholds[slot] = threshold;
  task.flagged.candidates[slot] = 0;
  task.flagged.nearest[slot] = ~0ull;
  if constexpr (!kRankedInOne<T>) {
    task.flagged.nearest[task.points.n + slot] = ~0ull;
  }
  task.flagged.overflowed[slot] = false;
}

/// The first level's decision on a row: `best` and `second` are its two least scores, `nearest` the
/// centroid of the best. `error`: how far the best score may be from the exact one; `largest`: how
/// far any score may. All lanes of the warp must call it; those without a row say so.
template <typename T>
__device__ void decide(const SweepTask<T>& task, bool has_row, std::size_t row, float best,
                       unsigned nearest, float second, float error, float largest) {
  const bool certain = second - best > (error + largest) * kUpwards; // false for NaN, too
  if (has_row) {
    task.labels[row] = static_cast<std::int32_t>(nearest);
  }
  const unsigned slot = take_place(has_row && !certain, &task.counters->flagged);
  if (has_row && !certain) {
    flag(task, slot, static_cast<unsigned>(row), __fadd_ru(best, __fmul_ru(error, kUpwards)));
  }
}

/// The same for scores of one float16 product, whose errors are those of docs/certified.md.
template <typename T>
__device__ void decide_half(const SweepTask<T>& task, bool has_row, std::size_t row, float best,
                            unsigned nearest, float second) {
  float error = 0.0f, largest = 0.0f;
  if (has_row) {
    const float4 terms = task.centroids.terms[nearest];
    const float residual = task.points.residual[row], norm = task.points.norm[row];
    error = ScoreError{terms.x, terms.y, terms.z}.of(residual, norm);
    largest = task.counters->largest().of(residual, norm);
  }
  decide(task, has_row, row, best, nearest, second, error, largest);
}

// ---- copies
//
// The float16 copy of the points: moved to the mean of the data, scaled by a power of two to the
// top of float16's range, rounded; with the norms that the bound needs. Made once, and again for
// starts that lie beyond the points.

/// Of a column in some rows.
template <typename T>
struct ColumnFacts {
  double sum;
  T least, most;

  __device__ static ColumnFacts none() { return {0.0, INFINITY, -INFINITY}; }
  __device__ static ColumnFacts of(T value) { return {static_cast<double>(value), value, value}; }
  __device__ void add(const ColumnFacts& other) {
    sum += other.sum;
    least = fmin(least, other.least);
    most = fmax(most, other.most);
  }
};

/// Bits of the largest |value| and of the largest |value - mean|: numbers that are not negative
/// have the order of their bits.
template <typename T>
struct LargestBits {
  using Word = std::conditional_t<std::is_same_v<T, float>, unsigned, unsigned long long>;
  Word plain, moved;

  __device__ static Word of(float value) { return __float_as_uint(value); }
  __device__ static Word of(double value) { return static_cast<Word>(__double_as_longlong(value)); }
};

/// Cuts arrays out of one piece of memory, as a cudaMalloc takes longer than most kernels of
/// prepare(). Without memory it only counts.
struct Arena {
  std::byte* memory;
  std::size_t used = 0;

  template <typename T>
  T* take(std::size_t size) {
    const std::size_t at = std::exchange(used, used + ceil_div(size * sizeof(T), 256) * 256);
    return memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + at);
  }
};

inline constexpr unsigned kMeasuredColumns = 256; ///< of a block, as many threads
inline constexpr unsigned kMeasuredAtOnce = 8;    ///< loads of a thread on their way
inline constexpr unsigned kMeasuringBlocks = 1024;

/// facts[b][f]: of column f in the rows of block b; blockIdx.y counts blocks of columns. Always the
/// same order of additions. points: [n, d]
template <typename T>
static __global__ void __launch_bounds__(kMeasuredColumns)
    measure_columns(const T* __restrict__ points, std::size_t n, unsigned d,
                    ColumnFacts<T>* facts) {
  using Facts = ColumnFacts<T>;
  __shared__ Facts s_facts[kMeasuredColumns];
  const unsigned first = blockIdx.y * kMeasuredColumns, columns = min(d - first, kMeasuredColumns);
  const unsigned rows = kMeasuredColumns / columns; // side by side
  const unsigned f = threadIdx.x % columns, r = threadIdx.x / columns;
  const std::size_t size = n * d, step = std::size_t{gridDim.x} * rows * d;
  Facts own = Facts::none();
  if (r < rows) {
    std::size_t e = (std::size_t{blockIdx.x} * rows + r) * d + first + f;
    for (; e + (kMeasuredAtOnce - 1) * step < size; e += kMeasuredAtOnce * step) {
      T x[kMeasuredAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kMeasuredAtOnce; ++i) {
        x[i] = points[e + i * step];
      }
#pragma unroll
      for (unsigned i = 0; i < kMeasuredAtOnce; ++i) {
        own.add(Facts::of(x[i]));
      }
    }
    for (; e < size; e += step) {
      own.add(Facts::of(points[e]));
    }
  }
  s_facts[threadIdx.x] = own;
  __syncthreads(); // those of all threads are there
  if (r == 0) {
    for (unsigned other = 1; other < rows; ++other) {
      own.add(s_facts[other * columns + f]);
    }
    facts[std::size_t{blockIdx.x} * d + first + f] = own;
  }
}

/// A block a column: mean[f], which need not be exact, being only a new origin; raises `largest`.
/// |value - mean|, rounded, is largest at an end of the column. facts: [blocks, d]
template <typename T>
static __global__ void __launch_bounds__(128)
    finish_columns(const ColumnFacts<T>* facts, unsigned blocks, std::size_t n, T* mean,
                   LargestBits<T>* largest) {
  using Bits = LargestBits<T>;
  __shared__ ColumnFacts<T> s_facts[128];
  const unsigned f = blockIdx.x, d = gridDim.x;
  auto own = ColumnFacts<T>::none();
  for (unsigned b = threadIdx.x; b < blocks; b += 128) {
    own.add(facts[std::size_t{b} * d + f]);
  }
  s_facts[threadIdx.x] = own;
  for (unsigned half = 64; half > 0; half /= 2) {
    __syncthreads(); // those of the last round are there
    if (threadIdx.x < half) {
      s_facts[threadIdx.x].add(s_facts[threadIdx.x + half]);
    }
  }
  if (threadIdx.x == 0) {
    const ColumnFacts<T> all = s_facts[0];
    const T origin = static_cast<T>(all.sum / static_cast<double>(n));
    mean[f] = origin;
    atomicMax(&largest->plain, Bits::of(fmax(fabs(all.least), fabs(all.most))));
    atomicMax(&largest->moved, Bits::of(fmax(fabs(all.least - origin), fabs(all.most - origin))));
  }
}

/// Raises largest->moved to that of centroids, [size / d, d].
template <typename T>
static __global__ void measure_centroids(const T* centroids, std::size_t size, unsigned d,
                                         const T* mean, LargestBits<T>* largest) {
  T moved = 0;
  for (std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; e < size;
       e += std::size_t{gridDim.x} * blockDim.x) {
    moved = fmax(moved, fabs(centroids[e] - mean[e % d]));
  }
  if constexpr (std::is_same_v<T, float>) {
    moved = __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(moved)));
  } else {
    for (int offset = 16; offset > 0; offset /= 2) {
      moved = fmax(moved, __shfl_xor_sync(0xffffffffu, moved, offset));
    }
  }
  if (threadIdx.x % 32 == 0) {
    atomicMax(&largest->moved, LargestBits<T>::of(moved));
  }
}

/// The sums of N values over kThreads threads, a warp or a block, in every thread; always in the
/// same order.
template <unsigned kThreads, unsigned N>
__device__ void add_over(double (&values)[N]) {
  for (unsigned v = 0; v < N; ++v) {
    values[v] = over_lanes<32>(values[v]);
  }
  if constexpr (kThreads > 32) {
    __shared__ double s_sums[N][kThreads / 32];
    if (threadIdx.x % 32 == 0) {
      for (unsigned v = 0; v < N; ++v) {
        s_sums[v][threadIdx.x / 32] = values[v];
      }
    }
    __syncthreads(); // those of all warps are there
    for (unsigned v = 0; v < N; ++v) {
      values[v] = s_sums[v][0];
      for (unsigned w = 1; w < kThreads / 32; ++w) {
        values[v] += s_sums[v][w];
      }
    }
  }
}

/// Moves a value to its feature's mean, scales and rounds it. Adds the squares of the exact one, of
/// the rounded one and of the residual to `squares`.
template <typename T>
__device__ __half round_value(T value, T mean, double scale, double (&squares)[3]) {
  const double exact = (static_cast<double>(value) - static_cast<double>(mean)) * scale;
  // The scale keeps the data in range; a value beyond it is cut, and the residual says so.
  const __half half = __double2half(fmin(fmax(exact, -65504.0), 65504.0));
  const double back = static_cast<double>(__half2float(half));
  squares[0] += exact * exact;
  squares[1] += back * back;
  squares[2] += (exact - back) * (exact - back);
  return half;
}

/// Four features of a row of d, zeros behind it. kFour: d is a multiple of 4, so that 16 bytes may
/// be read at once.
template <bool kFour, typename T>
__device__ void load_four(const T* row, unsigned feature, unsigned d, T (&to)[4]) {
  if constexpr (kFour && std::is_same_v<T, double>) {
    const double2 none{0.0, 0.0};
    const double2* from = reinterpret_cast<const double2*>(row + feature);
    const double2 low = feature < d ? from[0] : none, high = feature < d ? from[1] : none;
    to[0] = low.x, to[1] = low.y, to[2] = high.x, to[3] = high.y;
  } else if constexpr (kFour) {
    const float4 none{0.0f, 0.0f, 0.0f, 0.0f};
    const float4 four = feature < d ? *reinterpret_cast<const float4*>(row + feature) : none;
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else {
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      to[e] = feature + e < d ? row[feature + e] : T{0};
    }
  }
}

/// kLanes lanes a row, four features each at a time; two rows at once. Moves and scales in T, goes
/// on in float, see residual_of(), and rounds sums upwards. Writes whole tiles, of padded_n rows:
/// zeros behind n and d.
template <unsigned kLanes, bool kFour, typename T>
static __global__ void __launch_bounds__(256)
    round_points(const T* __restrict__ points, std::size_t n, std::size_t padded_n, unsigned d,
                 Normalization<T> frame, HalfTiles shape, __half* tiles, float* residuals,
                 float* norms) {
  const unsigned lane = threadIdx.x % kLanes, width = shape.chunks * shape.width;
  const T scale = static_cast<T>(frame.scale);
  const std::size_t groups = std::size_t{gridDim.x} * blockDim.x / kLanes; // whole warps of them
  const std::size_t own = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
  for (std::size_t step = 0; own - own % (32 / kLanes) + step < padded_n; step += 2 * groups) {
    const std::size_t row[2] = {own + step, own + step + groups};
    float rounded[2] = {}, lost[2] = {}; // squares
    for (unsigned feature = lane * 4; feature < width; feature += kLanes * 4) {
      T x[2][4], mean[4];
      load_four<kFour>(frame.mean, feature, d, mean);
#pragma unroll
      for (unsigned r = 0; r < 2; ++r) {
        load_four<kFour>(points + min(row[r], n - 1) * d, feature, d, x[r]);
      }
#pragma unroll
      for (unsigned r = 0; r < 2; ++r) {
        __half half[4];
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          const float value = row[r] < n ? static_cast<float>((x[r][e] - mean[e]) * scale) : 0.0f;
          // The scale keeps the data in range; a value beyond it is cut, and the residual says so.
          half[e] = __float2half_rn(fminf(fmaxf(value, -65504.0f), 65504.0f));
          const float back = __half2float(half[e]);
          rounded[r] = __fmaf_ru(back, back, rounded[r]);
          lost[r] = __fmaf_ru(value - back, value - back, lost[r]);
        }
        if (row[r] < padded_n) {
          alignas(8) const __half2 two[2] = {{half[0], half[1]}, {half[2], half[3]}};
          *reinterpret_cast<uint2*>(tiles + shape.offset(row[r], feature)) =
              *reinterpret_cast<const uint2*>(two);
        }
      }
    }
#pragma unroll
    for (unsigned r = 0; r < 2; ++r) {
#pragma unroll
      for (unsigned offset = kLanes / 2; offset > 0; offset /= 2) {
        const int away = static_cast<int>(offset);
        rounded[r] = __fadd_ru(rounded[r], __shfl_xor_sync(0xffffffffu, rounded[r], away));
        lost[r] = __fadd_ru(lost[r], __shfl_xor_sync(0xffffffffu, lost[r], away));
      }
      if (lane == 0 && row[r] < n) {
        const float norm = __fsqrt_ru(rounded[r]);
        norms[row[r]] = norm;
        residuals[row[r]] = residual_of(__fsqrt_ru(lost[r]), norm);
      }
    }
  }
}

/// Tiles of whole groups of padded_rows rows, and the norms that PointsView has.
struct HalfArrays {
  std::size_t padded_n;
  __half* tiles;
  float *residual, *norm; ///< [padded_n], of which n are made

  static HalfArrays cut(std::size_t n, std::size_t d, unsigned padded_rows, Arena& cutter) {
    const std::size_t padded_n = ceil_div(n, padded_rows) * padded_rows;
    return {padded_n, cutter.take<__half>(HalfTiles::of(d).size(padded_n)),
            cutter.take<float>(padded_n), cutter.take<float>(padded_n)};
  }
};

/// The points on the device, exact (the harness's own) and rounded. [n, d]
template <typename T = float>
class HalfCopy {
public:
  /// Asks how large the points are; does not block. Throws std::runtime_error.
  void measure(std::span<const T> d_points, std::size_t d) {
    exact_ = d_points.data();
    n_ = d_points.size() / d;
    d_ = static_cast<unsigned>(d);
    shape_ = HalfTiles::of(d);
    const auto across = static_cast<unsigned>(ceil_div(d, kMeasuredColumns));
    const unsigned rows = kMeasuredColumns / std::min(d_, kMeasuredColumns);
    const unsigned blocks = blocks_at_most(n_, rows * kMeasuredAtOnce, kMeasuringBlocks / across);
    d_facts_ = DeviceBuffer<ColumnFacts<T>>(blocks * d);
    d_mean_ = DeviceBuffer<T>(d);
    d_largest_ = DeviceBuffer<LargestBits<T>>(1);
    d_largest_.zero();
    measure_columns<<<dim3(blocks, across), kMeasuredColumns>>>(exact_, n_, d_, d_facts_.data());
    check_launch("measure_columns");
    finish_columns<<<d_, 128>>>(d_facts_.data(), blocks, n_, d_mean_.data(), d_largest_.data());
    check_launch("finish_columns");
  }

  /// Then rounds, with a scale that fits the points; waits for what measure() has asked. arrays and
  /// h_largest, which is page-locked, must outlive this. Without arrays it only chooses the scale.
  /// headroom: how many powers of two farther than the points and the start centroids may come to
  /// lie. Throws std::runtime_error.
  void prepare(const HalfArrays& arrays, LargestBits<T>* h_largest, int headroom = 0) {
    headroom_ = headroom;
    rounded_ = arrays;
    h_largest_ = h_largest;
    const LargestBits<T> largest = download();
    plain_ = std::bit_cast<T>(largest.plain);
    moved_ = farthest_ = std::bit_cast<T>(largest.moved);
    round(scale_for(moved_));
  }

  /// Asks how far from the mean the centroids [k, d] of a start reach; does not block. Throws
  /// std::runtime_error.
  void measure_start(std::span<const T> d_centroids) {
    d_largest_.zero();
    measure_centroids<<<blocks_at_most(d_centroids.size(), 256, 2048), 256>>>(
        d_centroids.data(), d_centroids.size(), d_, d_mean_.data(), d_largest_.data());
    check_launch("measure_centroids");
  }

  /// Fits the scale to that start, too; whether that has rounded the points again, as it does only
  /// if this start or the one before reaches more than twice as far from the mean as they do. Waits
  /// for what measure_start() has asked. Throws std::runtime_error.
  bool fit() {
    const T of_start = std::bit_cast<T>(download().moved);
    farthest_ = std::max(moved_, of_start);
    const double scale = scale_for(std::max(moved_, T(0.5) * of_start));
    if (scale == scale_) {
      return false;
    }
    round(scale);
    return true;
  }

  /// Rounds some rows of the points, [n, d] in device memory, to other arrays. Does not block.
  /// Throws std::runtime_error.
  void round_rows(const T* d_rows, std::size_t n, const HalfArrays& to) const {
    const bool four = d_ % 4 == 0;
    const unsigned lanes = d_ <= 32 ? 8 : d_ <= 64 ? 16 : 32;
    const auto kernel = lanes == 8 ? (four ? round_points<8, true, T> : round_points<8, false, T>)
                        : lanes == 16
                            ? (four ? round_points<16, true, T> : round_points<16, false, T>)
                            : (four ? round_points<32, true, T> : round_points<32, false, T>);
    kernel<<<blocks_at_most(to.padded_n * lanes, 256, 8192), 256>>>(
        d_rows, n, to.padded_n, d_, frame(), shape_, to.tiles, to.residual, to.norm);
    check_launch("round_points");
  }

  PointsView<T> view() const {
    return {n_, d_, shape_, exact_, rounded_.tiles, rounded_.residual, rounded_.norm};
  }
  Normalization<T> frame() const { return {d_mean_.data(), scale_}; }
  /// The largest |coordinate| of the points.
  double largest() const { return static_cast<double>(plain_); }
  /// Whether distances from the mean of the points, the last start's too, are numbers.
  bool is_finite() const { return std::isfinite(farthest_); }

private:
  LargestBits<T> download() {
    d_largest_.download({h_largest_, 1});
    return *h_largest_;
  }

  /// To [2^11, 2^12), which leaves a start room below 2^13: then half a squared length of 32
  /// features is at most 2^30. For up to four times as many, half of that, and so on. Scale and
  /// inverse are of type T.
  double scale_for(T moved) const {
    constexpr int kMost = std::numeric_limits<T>::max_exponent - 2;
    int exponent = 11 - headroom_;
    for (std::size_t most = 32; most < d_; most *= 4) {
      --exponent;
    }
    return moved > T{0} && std::isfinite(moved)
               ? std::ldexp(1.0, std::min(exponent - std::ilogb(moved), kMost))
               : 1.0;
  }

  void round(double scale) {
    scale_ = scale;
    if (rounded_.tiles != nullptr) {
      round_rows(exact_, n_, rounded_);
    }
  }

  const T* exact_ = nullptr;
  std::size_t n_ = 0;
  unsigned d_ = 0;
  HalfTiles shape_;
  HalfArrays rounded_{};
  double scale_ = 1.0;
  int headroom_ = 0;
  T plain_ = 0, moved_ = 0;              ///< see LargestBits
  T farthest_ = 0;                       ///< moved_, or the last start's if that is more
  DeviceBuffer<ColumnFacts<T>> d_facts_; ///< kept, as freeing it would wait for the device
  DeviceBuffer<T> d_mean_;               ///< [d]
  DeviceBuffer<LargestBits<T>> d_largest_;
  LargestBits<T>* h_largest_ = nullptr;
};

// ---- rows as operands
//
// A copy of the rounded rows in the order in which the lanes of a warp hold operands of a product.

inline constexpr unsigned kWarpRows = 16; ///< a lane shares row lane / 4 and the one 8 further on

/// The first of a lane's four features of a step of 16. The order of features is free, as long as
/// centroids have the same one.
template <unsigned kData>
__host__ __device__ unsigned first_feature(unsigned step, unsigned quarter) {
  return kData == 1 ? quarter * 4 : step / 2 * 32 + quarter * 8 + step % 2 * 4;
}

/// Rows in kData steps of 16 features. Of a step a lane has two features of its first row, two of
/// its second row, and the next two of either.
struct OperandRows {
  const uint4* words;   ///< [blocks of kWarpRows, kData, 32 lanes]
  const float2* bounds; ///< [n] residual and norm of PointsView
};

/// The features of a row that make |c|^2 / 2 and a constant of the row: 1 and 2^-10, then the
/// constant, no less than 2^-16 of its squared length, and 1.
__device__ inline uint2 row_tail(float norm) {
  const unsigned constant = __half_as_ushort(__float2half_ru(norm * (norm * 0x1p-16f)));
  return {0x14003c00u, constant | 0x3c000000u};
}

/// Writes those of all points, see OperandRows; rows behind them, up to whole blocks, are zero. A
/// thread has what a lane needs for a step. tails: the last four features are row_tail().
template <unsigned kData, typename T>
static __global__ void arrange_rows(const PointsView<T> points, std::size_t blocks, bool tails,
                                    uint4* words, float2* bounds) {
  for (std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; e < blocks * kData * 32;
       e += std::size_t{gridDim.x} * blockDim.x) {
    const auto lane = static_cast<unsigned>(e % 32), step = static_cast<unsigned>(e / 32 % kData);
    const std::size_t row = e / 32 / kData * kWarpRows + lane / 4;
    uint2 two[2] = {};
    for (unsigned p = 0; p < 2; ++p) {
      if (row + p * 8 < points.n) {
        const unsigned feature = first_feature<kData>(step, lane % 4);
        two[p] = tails && step + 1 == kData && lane % 4 == 3
                     ? row_tail(points.norm[row + p * 8])
                     : *reinterpret_cast<const uint2*>(points.rounded +
                                                       points.shape.offset(row + p * 8, feature));
      }
    }
    words[e] = {two[0].x, two[1].x, two[0].y, two[1].y};
    if (const std::size_t own = row + lane % 2 * 8; step == 0 && lane % 4 < 2 && own < points.n) {
      bounds[own] = {points.residual[own], points.norm[own]};
    }
  }
}

} // namespace clusterbench::cuda

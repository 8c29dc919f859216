// K-means for few points of any number of features: rows stay in shared memory, in one launch.
//
// Idea: with some thousand rows, a chain of kernels waits for itself more than it computes. Here
//   every multiprocessor keeps its rows for the whole run, and centroids stream past them.
// Changed since kmeans_cuda_cells: a tile of rows and 64 centroids is a product of matrices in
//   float32, so d and k may be large. Where rows are so few that a tile has fewer threads than a
//   block, two to eight share its features. Only rows that move change the sums.
// Source: kmeans_cuda_cells; the tiling of SGEMM (Boehm, How to optimize a CUDA matmul, 2022).
// Cost per iteration: n d k multiply-adds, k padded to 16 or a multiple of 64; 4 k d bytes from L2
//   for each tile of 16 to 64 rows; two barriers of the grid: all sums are there, all means are.
// Limits: float; what shared memory holds of the rows (5 million values on an H200), else refused,
//   as are rows far from the origin (magnitudes.hpp), and devices before 9.0. Rows between two
//   centroids by less than rounding are compared with all by squared differences. Deterministic.
// Needs: sm_80
#include "impls/contract.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/exact_words.cuh"
#include "impls/cuda/common/integer_sums.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 512, kWarps = kThreads / 32;
constexpr unsigned kColumns = 64; ///< centroids of a tile; a thread has each 16th
constexpr unsigned kStep = 16;    ///< fours of features that are multiplied between two barriers
constexpr unsigned kStages = 3;   ///< of centroids that are on their way, or multiplied
constexpr unsigned kFewClusters = 16;
constexpr unsigned kPadded = 8; ///< fours of a row or a centroid are a multiple of the widest split

/// How a block divides a tile of kRows rows and kColumns centroids: a thread has four rows, and
/// kSplit threads, neighbours in a warp, share their features.
template <unsigned kRows_>
struct Tile {
  static constexpr unsigned kRows = kRows_, kSplit = kThreads / (kRows * 4);
  /// Of a warp's threads with the same part of the features: those with different centroids, and
  /// with different rows. So many warps have the centroids of a row.
  static constexpr unsigned kAcross = kSplit < 8 ? 8 : 4, kDown = 32 / (kSplit * kAcross);
  static constexpr unsigned kAbreast = 16 / kAcross;
  static constexpr unsigned kOwn = kSplit < 4 ? 4 / kSplit : 1; ///< rows whose scores it compares
  /// Floats from one centroid to the next in a stage. The padding keeps lanes that read different
  /// rows or centroids in different banks.
  static constexpr unsigned kStride = (kStep + kSplit % 8) * 4;
  static __host__ __device__ unsigned row_stride(unsigned fours) {
    return (fours + kSplit % 8) * 4;
  }
};

struct Task {
  RunTask<> run;
  const float* points; // [n, d]
  unsigned n, d, k;
  unsigned rows; // of a block, whole tiles
  SumsView sums;
  float* centroids;    // [k, 4 fours()], padded to whole tiles; zero behind k and d
  float* half_squares; // [k]
  long long* words;    // of GridSums

  __host__ __device__ unsigned fours() const {
    return (d + kPadded * 4 - 1) / (kPadded * 4) * kPadded;
  }
  __device__ unsigned tiles() const { return (k + kColumns - 1) / kColumns; }
};

/// The nearest centroid so far, by scores, and the score of the next.
struct Nearest {
  float least, second;
  unsigned label;

  __device__ void take(float score, unsigned j) {
    second = fminf(second, fmaxf(least, score));
    label = score < least ? j : label;
    least = fminf(least, score);
  }
  __device__ void take(const Nearest& other) {
    second = fminf(fminf(second, other.second), fmaxf(least, other.least));
    label = other.least < least ? other.label : label;
    least = fminf(least, other.least);
  }
};

__device__ float4 read_four(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}

/// Streams the centroids through the stages, again and again: tiles of centroids one after another,
/// kStep fours of features of each at a time. A thread fetches the same places of each stage.
/// kLive: 16 centroids of a tile, each, that are needed.
template <unsigned kStride, unsigned kLive>
class CentroidStream {
public:
  /// All threads: begins a pass.
  __device__ CentroidStream(const Task& task, float* s_stages)
      : fours_(task.fours()), begin_(task.centroids), tile_(begin_),
        end_(begin_ + std::size_t{task.tiles()} * kColumns * fours_ * 4), s_stages_(s_stages) {
    for (unsigned stage = 0; stage + 1 < kStages; ++stage) {
      fetch();
    }
  }
  /// All threads: the next step's centroids, [kColumns, kStride]. Those before are gone.
  __device__ const float* next() {
    cp_async_wait<kStages - 2>();
    __syncthreads(); // what all threads fetched is there, and nobody needs the stage before
    fetch();
    const float* s_stage = s_stages_ + taken_ * kSize;
    taken_ = taken_ + 1 < kStages ? taken_ + 1 : 0;
    return s_stage;
  }

private:
  static constexpr unsigned kSize = kColumns * kStride, kEach = kThreads / kStep; // columns

  __device__ void fetch() {
    const unsigned four = first_ + threadIdx.x % kStep, column = threadIdx.x / kStep;
    if (four < fours_) {
      float* to = s_stages_ + fetched_ * kSize + column * kStride + threadIdx.x % kStep * 4;
      const float* from = tile_ + (column * fours_ + four) * 4;
#pragma unroll
      for (unsigned e = 0; e < kLive * 16; e += kEach) {
        if (kLive * 16 >= kEach || column < kLive * 16) {
          cp_async(to + e * kStride, from + e * fours_ * 4);
        }
      }
    }
    cp_async_commit();
    fetched_ = fetched_ + 1 < kStages ? fetched_ + 1 : 0;
    first_ += kStep;
    if (first_ >= fours_) { // the next tile, or the first again
      first_ = 0;
      tile_ += kColumns * fours_ * 4;
      tile_ = tile_ == end_ ? begin_ : tile_;
    }
  }

  unsigned fours_, first_ = 0, fetched_ = 0, taken_ = 0;
  const float *begin_, *tile_, *end_;
  float* s_stages_;
};

/// A sum over the block. All threads; all get it.
__device__ double over_block(double value) {
  __shared__ double s_parts[kWarps];
  value = over_lanes<32>(value);
  __syncthreads(); // nobody reads those of the time before
  if (threadIdx.x % 32 == 0) {
    s_parts[threadIdx.x / 32] = value;
  }
  __syncthreads(); // those of all warps are there
  value = 0.0;
  for (const double part : s_parts) {
    value += part;
  }
  return value;
}

/// What a block shares beside its dynamic memory.
template <typename T>
struct BlockShared {
  Nearest found[T::kAbreast][T::kRows]; ///< of each warp of a row
  unsigned doubtful;                    ///< rows with several candidates
};

/// What a block knows and does in a run.
template <typename T>
class BlockRun {
public:
  static constexpr unsigned kRows = T::kRows, kSplit = T::kSplit, kOwn = T::kOwn;
  static constexpr unsigned kAcross = T::kAcross, kAbreast = T::kAbreast;

  __device__ BlockRun(const Task& task, float* s_dynamic, BlockShared<T>& s_block)
      : task_(task), s_block_(s_block), row_stride_(T::row_stride(task.fours())),
        s_rows_(s_dynamic), s_stages_(s_rows_ + task.rows * row_stride_),
        s_half_squares_(s_stages_ + kStages * kColumns * T::kStride),
        s_lengths_(s_half_squares_ + task.tiles() * kColumns),
        s_labels_(reinterpret_cast<int*>(s_lengths_ + task.rows)),
        s_doubtful_(reinterpret_cast<unsigned*>(s_labels_ + task.rows)),
        first_(blockIdx.x * task.rows), count_(min(task.rows, task.n - first_)),
        sums_(task.words, 0, false) {}

  static std::size_t bytes(const Task& task) {
    const std::size_t columns = ceil_div(task.k, kColumns) * kColumns;
    return (task.rows * (T::row_stride(task.fours()) + std::size_t{3}) +
            kStages * kColumns * T::kStride + columns) *
           sizeof(float);
  }

  __device__ void run() {
    keep_rows();
    place([&](unsigned j, unsigned f, float) { return task_.run.initial[j * task_.d + f]; });
    sums_.finish(); // centroids and empty sums are there
    task_.run.note_time(0);
    double previous = INFINITY;
    std::size_t pass = 0;
    for (bool last = false; !last;) {
      const double wanted = over_block(label_rows());
      if (threadIdx.x == 0) {
        sums_.set_fact(wanted);
      }
      sums_.finish(); // all rows are in the sums
      const double fact = task_.run.wants_fact() ? sums_.fact() : 0.0;
      const double moved = over_block(make_means(pass));
      if (threadIdx.x == 0) {
        sums_.set_fact(moved);
      }
      sums_.finish(); // all means are there
      const bool wants_shift = task_.run.rule == StopRule::Kind::shift;
      const double squared_shift = wants_shift ? sums_.fact() : 0.0;
      ++pass;
      task_.run.note_time(pass);
      // All blocks have the same bits, so they take the same decision.
      last = task_.run.is_last(pass, fact, previous, squared_shift);
      previous = fact;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      *task_.run.iterations = pass;
    }
  }

private:
  /// Copies the block's rows to shared memory, zero behind them, and measures them.
  __device__ void keep_rows() {
    const unsigned width = task_.fours() * 4;
#pragma unroll 8 // values are on their way together
    for (unsigned e = threadIdx.x; e < task_.rows * width; e += kThreads) {
      const unsigned row = e / width, f = e % width;
      s_rows_[row * row_stride_ + f] = row < count_ && f < task_.d
                                           ? task_.points[std::size_t{first_ + row} * task_.d + f]
                                           : 0.0f;
    }
    __syncthreads(); // the rows are there
    for (unsigned row = threadIdx.x / 32; row < task_.rows; row += kWarps) {
      double squared = 0.0;
      for (unsigned f = threadIdx.x % 32; f < width; f += 32) {
        const auto x = static_cast<double>(s_rows_[row * row_stride_ + f]);
        squared += x * x;
      }
      squared = over_lanes<32>(squared);
      if (threadIdx.x % 32 == 0) {
        s_lengths_[row] = __double2float_ru(sqrt(squared));
        s_labels_[row] = -1;
      }
    }
  }

  /// Sets the block's share of the centroids: value_of(j, f, old). Returns the thread's part of
  /// the squared distance that they move. One warp a centroid, or the block where d is large.
  template <typename ValueOf>
  __device__ double place(ValueOf value_of) {
    constexpr unsigned kOfWarp = 128;
    const bool by_warp = task_.d <= kOfWarp;
    const unsigned lanes = by_warp ? 32 : kThreads, teams = kThreads / lanes;
    const unsigned thread = threadIdx.x % lanes;
    double shift = 0.0;
    for (unsigned j = blockIdx.x + threadIdx.x / lanes * gridDim.x; j < task_.k;
         j += gridDim.x * teams) {
      float* centroid = task_.centroids + std::size_t{j} * task_.fours() * 4;
      double squared = 0.0;
#pragma unroll 4
      for (unsigned f = thread; f < task_.d; f += lanes) {
        const float old = __ldcg(centroid + f), now = value_of(j, f, old);
        const double moved = static_cast<double>(now) - static_cast<double>(old);
        centroid[f] = now;
        squared += static_cast<double>(now) * static_cast<double>(now);
        shift += moved * moved;
      }
      squared = by_warp ? over_lanes<32>(squared) : over_block(squared);
      if (thread == 0) {
        task_.half_squares[j] = static_cast<float>(0.5 * squared);
      }
    }
    return shift;
  }

  __device__ double make_means(std::size_t pass) {
    const SumsView& sums = task_.sums;
    return place([&](unsigned j, unsigned f, float old) {
      const unsigned at = j * task_.d + f, size = __ldcg(sums.counts + j);
      const double sum = static_cast<double>(__ldcg(sums.high + at)) +
                         static_cast<double>(__ldcg(sums.low + at)) / sums.point.to_low;
      const float now = size > 0 ? static_cast<float>(sum / sums.point.to_high / size) : old;
      task_.run.leave_centroid(pass, at, task_.k * task_.d, old, now);
      return now;
    });
  }

  /// A sweep: labels, and what they change of the sums. Returns the thread's part of what the stop
  /// rule asks for.
  __device__ double label_rows() {
    return task_.k <= kFewClusters ? label_rows<1>() : label_rows<kColumns / 16>();
  }

  /// kLive: centroids of a tile that a thread has, the others do not exist.
  template <unsigned kLive>
  __device__ double label_rows() {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, split = lane % kSplit;
    const unsigned across = lane / kSplit % kAcross;
    const unsigned column = across + warp % kAbreast * kAcross; // and each 16th further on
    const unsigned row = warp / kAbreast * T::kDown +
                         lane / (kSplit * kAcross); // of its four, which are kRows / 4 apart
    const unsigned row_tiles = (count_ + kRows - 1) / kRows;
    CentroidStream<T::kStride, kLive> stream(task_, s_stages_);
    float longest = 0.0f;
    for (unsigned j = threadIdx.x; j < task_.tiles() * kColumns; j += kThreads) {
      s_half_squares_[j] = j < task_.k ? __ldcg(task_.half_squares + j) : INFINITY;
    }
    if (threadIdx.x == 0) {
      s_block_.doubtful = 0;
    }
    __syncthreads(); // they are there
    for (unsigned j = lane; j < task_.k; j += 32) {
      longest = fmaxf(longest, s_half_squares_[j]);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      longest = fmaxf(longest, __shfl_xor_sync(kAllLanes, longest, offset));
    }
    double changes = 0.0;
#pragma unroll 1
    for (unsigned tile = 0; tile < row_tiles; ++tile) {
      const float* s_tile = s_rows_ + (tile * kRows + row) * row_stride_ + split * 4;
      Nearest nearest[kOwn];
#pragma unroll
      for (Nearest& one : nearest) {
        one = {INFINITY, INFINITY, 0};
      }
#pragma unroll 1
      for (unsigned columns = 0; columns < task_.k; columns += kColumns) {
        float products[4][kLive];
        multiply<kLive>(stream, s_tile, column, split, products);
        float own[kOwn][kLive]; // of rows kSplit r + split % 4 of the thread's four
        gather(products, split, own);
#pragma unroll
        for (unsigned c = 0; c < kLive; ++c) {
          const unsigned j = columns + c * 16 + column;
#pragma unroll
          for (unsigned r = 0; r < kOwn; ++r) {
            nearest[r].take(s_half_squares_[j] - own[r][c], j);
          }
        }
      }
#pragma unroll
      for (unsigned r = 0; r < kOwn; ++r) {
        for (unsigned offset = kSplit; offset < kAcross * kSplit; offset *= 2) {
          nearest[r].take({__shfl_xor_sync(kAllLanes, nearest[r].least, static_cast<int>(offset)),
                           __shfl_xor_sync(kAllLanes, nearest[r].second, static_cast<int>(offset)),
                           __shfl_xor_sync(kAllLanes, nearest[r].label, static_cast<int>(offset))});
        }
        if (across == 0) {
          s_block_.found[warp % kAbreast][row + (kSplit * r + split % 4) * (kRows / 4)] =
              nearest[r];
        }
      }
      __syncthreads(); // the nearest of all warps are there
      for (unsigned r = warp; r < kRows && tile * kRows + r < count_; r += kWarps) {
        Nearest found = s_block_.found[0][r];
#pragma unroll
        for (unsigned other = 1; other < kAbreast; ++other) {
          found.take(s_block_.found[other][r]);
        }
        const unsigned its_row = tile * kRows + r;
        if (found.second - found.least > margin(its_row, longest)) {
          changes += finish(its_row, static_cast<int>(found.label));
        } else if (lane == 0) { // what is no number is not certain, either
          s_doubtful_[atomicAdd(&s_block_.doubtful, 1u)] = its_row;
        }
      }
    }
    cp_async_wait<0>();
    __syncthreads(); // all doubtful rows are there, and all copies
    changes += settle(s_block_.doubtful);
    return task_.run.rule == StopRule::Kind::loss ? loss() : changes;
  }

  /// Products of the thread's rows and centroids, of its part of the features. Sums of 32 of them
  /// are added up: so rounding counts no more than 32 terms, and the sums.
  template <unsigned kLive>
  __device__ void multiply(CentroidStream<T::kStride, kLive>& stream, const float* s_tile,
                           unsigned column, unsigned split, float (&products)[4][kLive]) const {
    constexpr unsigned kSteps = kSplit * 32 / (kStep * 4); // of such a sum
    float part[4][kLive] = {};
#pragma unroll
    for (unsigned e = 0; e < 4 * kLive; ++e) {
      products[e / kLive][e % kLive] = 0.0f;
    }
    unsigned step = 0;
#pragma unroll 1
    for (unsigned first = 0; first < task_.fours(); first += kStep) {
      const float* s_columns = stream.next() + column * T::kStride + split * 4;
      const float* s_own = s_tile + first * 4;
      const unsigned fours = min(kStep, task_.fours() - first);
#pragma unroll 2
      for (unsigned four = 0; four < fours; four += kSplit) {
        float4 x[4], c[kLive];
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) {
          x[e] = read_four(s_own + e * (kRows / 4) * row_stride_ + four * 4);
        }
#pragma unroll
        for (unsigned e = 0; e < kLive; ++e) {
          c[e] = read_four(s_columns + e * 16 * T::kStride + four * 4);
        }
#pragma unroll
        for (unsigned e = 0; e < 4 * kLive; ++e) {
          const float4 &a = x[e / kLive], &b = c[e % kLive];
          float& sum = part[e / kLive][e % kLive];
          sum = fmaf(a.x, b.x, sum);
          sum = fmaf(a.y, b.y, sum);
          sum = fmaf(a.z, b.z, sum);
          sum = fmaf(a.w, b.w, sum);
        }
      }
      if (++step % kSteps == 0 || first + kStep >= task_.fours()) {
#pragma unroll
        for (unsigned e = 0; e < 4 * kLive; ++e) {
          products[e / kLive][e % kLive] += part[e / kLive][e % kLive];
          part[e / kLive][e % kLive] = 0.0f;
        }
      }
    }
  }

  /// Adds up what the threads of a split have: each gets the sums of kOwn of the four rows.
  template <unsigned kLive>
  static __device__ void gather(const float (&products)[4][kLive], unsigned split,
                                float (&own)[kOwn][kLive]) {
    const auto keep = [](bool second, float a, float b, int offset) {
      return (second ? b : a) + __shfl_xor_sync(kAllLanes, second ? a : b, offset);
    };
#pragma unroll
    for (unsigned c = 0; c < kLive; ++c) {
      const float even = keep(split % 2 == 1, products[0][c], products[1][c], 1);
      const float odd = keep(split % 2 == 1, products[2][c], products[3][c], 1);
      if constexpr (kSplit == 2) {
        own[0][c] = even, own[1][c] = odd;
      } else {
        own[0][c] = keep(split / 2 % 2 == 1, even, odd, 2);
        if constexpr (kSplit == 8) { // two lanes a row
          own[0][c] += __shfl_xor_sync(kAllLanes, own[0][c], 4);
        }
      }
    }
  }

  /// How far apart two scores of a row have to be: twice the error of one. A sum of products is
  /// wrong by no more than its terms times 2^-24 |x| |c|; |c|^2 / 2 and the score are rounded.
  __device__ float margin(unsigned row, float longest) const {
    const unsigned sums = (task_.fours() + kSplit * 8 - 1) / (kSplit * 8); // of 32 terms
    const float terms = static_cast<float>(32 + sums + 3 + 4);
    const float length = sqrtf(2.0f * longest) * 1.001f + 2e-22f; // squares of less are zero
    return 2.02f * 0x1p-24f * terms * (s_lengths_[row] * length + longest) + 1e-36f;
  }

  /// A warp: a row whose label is known. Returns 1 by one lane if it has another one than before.
  __device__ double finish(unsigned row, int label) {
    const int before = s_labels_[row];
    __syncwarp(); // all lanes have read it
    if (label == before) {
      return 0.0;
    }
    move(s_rows_ + row * row_stride_, before, label);
    if (threadIdx.x % 32 != 0) {
      return 0.0;
    }
    s_labels_[row] = label;
    task_.run.labels[first_ + row] = label;
    return 1.0;
  }

  /// A warp: squared distances of a row to some centroids, as sums of squared differences.
  template <unsigned kMany>
  __device__ void squared_distances(unsigned row, const unsigned (&centroids)[kMany],
                                    float (&squared)[kMany]) const {
    const float* s_row = s_rows_ + row * row_stride_;
    const auto* rows = reinterpret_cast<const float4*>(task_.centroids);
#pragma unroll
    for (float& one : squared) {
      one = 0.0f;
    }
#pragma unroll 2
    for (unsigned four = threadIdx.x % 32; four < task_.fours(); four += 32) {
      const float4 x = read_four(s_row + four * 4);
#pragma unroll
      for (unsigned e = 0; e < kMany; ++e) {
        const float4 c = __ldcg(rows + std::size_t{centroids[e]} * task_.fours() + four);
        squared[e] += (x.x - c.x) * (x.x - c.x) + (x.y - c.y) * (x.y - c.y) +
                      (x.z - c.z) * (x.z - c.z) + (x.w - c.w) * (x.w - c.w);
      }
    }
#pragma unroll
    for (float& one : squared) {
      one = over_lanes<32>(one);
    }
  }

  /// All threads: compares the doubtful rows with all centroids, a warp some of a row's. The lowest
  /// index of several nearest wins. Returns the thread's part of how many labels change.
  __device__ double settle(unsigned doubtful) {
    constexpr unsigned kMany = 4;
    // In the place of the stages, which have room for more rows than a block can have.
    auto* s_nearest = reinterpret_cast<unsigned long long*>(s_stages_);
    const unsigned warp = threadIdx.x / 32, parts = (task_.k + kMany - 1) / kMany;
    for (unsigned i = threadIdx.x; i < doubtful; i += kThreads) {
      s_nearest[i] = ~0ull;
    }
    __syncthreads(); // none is nearest yet
    for (unsigned part = warp; part < doubtful * parts; part += kWarps) {
      const unsigned i = part / parts;
      unsigned j[kMany];
#pragma unroll
      for (unsigned e = 0; e < kMany; ++e) { // behind k the last is repeated
        j[e] = min(part % parts * kMany + e, task_.k - 1);
      }
      float squared[kMany];
      squared_distances(s_doubtful_[i], j, squared);
      unsigned long long nearest = ~0ull; // the bits of floats that are not negative are in order
#pragma unroll
      for (unsigned e = 0; e < kMany; ++e) {
        const unsigned long long bits = __float_as_uint(squared[e]);
        nearest = min(nearest, bits << 32 | j[e]);
      }
      if (threadIdx.x % 32 == 0) {
        atomicMin(&s_nearest[i], nearest);
      }
    }
    __syncthreads(); // all parts are compared
    double changes = 0.0;
    for (unsigned i = warp; i < doubtful; i += kWarps) {
      changes += finish(s_doubtful_[i], static_cast<int>(s_nearest[i] & 0xffffffffu));
    }
    __syncthreads(); // all labels are there
    return changes;
  }

  /// By the rule `loss`: the thread's part of the sum of the rows' distances to their centroids.
  __device__ double loss() const {
    double sum = 0.0;
    for (unsigned row = threadIdx.x / 32; row < count_; row += kWarps) {
      const unsigned own[1] = {static_cast<unsigned>(s_labels_[row])};
      float squared[1];
      squared_distances(row, own, squared);
      sum += threadIdx.x % 32 == 0 ? static_cast<double>(sqrtf(squared[0])) : 0.0;
    }
    return sum;
  }

  /// A warp: takes a row from a cluster, unless that is -1, to another.
  __device__ void move(const float* s_row, int from, int to) const {
    const SumsView& sums = task_.sums;
    if (threadIdx.x % 32 == 0) {
      atomicAdd(&sums.counts[to], 1u);
      if (from >= 0) {
        atomicSub(&sums.counts[from], 1u);
      }
    }
#pragma unroll 4
    for (unsigned f = threadIdx.x % 32; f < task_.d; f += 32) {
      const FixedWords words = FixedWords::of(s_row[f], point_);
      add_exactly(sums, static_cast<std::size_t>(to) * task_.d + f, words);
      if (from >= 0) {
        add_exactly(sums, static_cast<std::size_t>(from) * task_.d + f, {-words.high, -words.low});
      }
    }
  }

  const Task& task_;
  BlockShared<T>& s_block_;
  FloatPoint point_{task_.sums.point};
  unsigned row_stride_;    ///< floats
  float* s_rows_;          ///< [rows, row_stride]
  float* s_stages_;        ///< [kStages, kColumns, kStride]
  float* s_half_squares_;  ///< [whole tiles of k]; what does not exist is infinitely far
  float* s_lengths_;       ///< [rows]
  int* s_labels_;          ///< [rows]
  unsigned* s_doubtful_;   ///< [rows] those with several candidates
  unsigned first_, count_; ///< the block's rows
  GridSums sums_;          ///< without sums: its barrier and its facts
};

/// The whole run. One block a multiprocessor, all of them resident.
template <unsigned kRows>
__global__ void __launch_bounds__(kThreads, 1) cluster_rows(const Task task) {
  extern __shared__ __align__(16) float s_dynamic[];
  __shared__ BlockShared<Tile<kRows>> s_block;
  BlockRun<Tile<kRows>>(task, s_dynamic, s_block).run();
}

/// A compiled kernel.
struct Size {
  unsigned rows; ///< of a tile
  std::size_t (*bytes)(const Task&);
  void (*kernel)(const Task);
};
template <unsigned kRows>
constexpr Size kSize{kRows, BlockRun<Tile<kRows>>::bytes, cluster_rows<kRows>};
constexpr std::array kSizes{kSize<64>, kSize<32>, kSize<16>};

/// What the kernel needs to know of a shape, and which it is: the one that pads a block's rows
/// least; of two, that of the larger tiles, for which fewer centroids are read.
struct Plan {
  Task task{};
  const Size* size = nullptr;

  explicit Plan(const Shape& shape) {
    const std::size_t share = ceil_div(shape.n, std::max<std::size_t>(1, multiprocessors()));
    task.n = static_cast<unsigned>(shape.n);
    task.d = static_cast<unsigned>(shape.d);
    task.k = static_cast<unsigned>(shape.k);
    for (const Size& one : kSizes) {
      const std::size_t rows = ceil_div(share, one.rows) * one.rows;
      if (size == nullptr || rows < task.rows) {
        size = &one;
        task.rows = static_cast<unsigned>(rows);
      }
    }
  }
  std::size_t bytes() const { return size->bytes(task); }
};

class KmeansCudaResident final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    constexpr unsigned kMost = 1U << 16; // of either: more would not fit
    const std::string reason = refuse_clustered(shape, kMost, kMost);
    return !reason.empty() ? reason : refuse_shared(Plan(shape).bytes() + kStatic);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    const Plan plan(shape);
    kernel_ = plan.size->kernel;
    task_ = plan.task;
    launch_.prepare(shape);
    grid_ = {.blocks = 0, .threads = kThreads, .cluster = 1, .shared_bytes = plan.bytes()};
    const unsigned resident = resident_in_clusters(kernel_, grid_);
    grid_.blocks = static_cast<unsigned>(ceil_div(shape.n, task_.rows));
    if (resident < grid_.blocks) {
      throw Refusal("all " + std::to_string(grid_.blocks) + " blocks have to be resident, not " +
                    std::to_string(resident));
    }
    path_ = "tiles of " + std::to_string(plan.size->rows) + " rows, " + std::to_string(task_.rows) +
            " a block";
    const std::size_t values = shape.k * shape.d;
    const std::size_t padded = ceil_div(shape.k, kColumns) * kColumns * task_.fours() * 4;
    d_centroids_ = DeviceBuffer<float>(padded + shape.k);
    d_sums_ = DeviceBuffer<long long>(2 * values + ceil_div(shape.k, 2));
    d_words_ = DeviceBuffer<long long>(GridSums::words(0, grid_.blocks));
    d_centroids_.zero();
    d_words_.zero();
    const Magnitudes of_points = device_magnitudes(points.rows, shape.d);
    const float largest = *std::ranges::max_element(of_points.largest);
    throw_if_far(points.rows, shape.d, shape.k, of_points.longest, kFar);
    task_.points = points.rows.data();
    task_.centroids = d_centroids_.data();
    task_.half_squares = task_.centroids + padded;
    task_.sums = {FixedPoint::of(shape.n, largest), d_sums_.data(), d_sums_.data() + values,
                  reinterpret_cast<unsigned*>(d_sums_.data() + 2 * values)};
    task_.words = d_words_.data();
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    d_sums_.zero();
    launch_.run(start, answer, observer, kernel_, task_, grid_, LabelsBefore::kept);
  }

  std::string chosen_path() const override { return path_; }

private:
  static constexpr std::size_t kStatic = 2048; // of shared memory, at most
  /// See refuse_far_rows(): ten times as far as where rounded factors decide little.
  static constexpr double kFar = 4e6;

  void (*kernel_)(const Task) = nullptr;
  Task task_{};
  ClusterLaunch grid_{};
  OneLaunch<> launch_;
  DeviceBuffer<float> d_centroids_; // and half squares
  DeviceBuffer<long long> d_sums_;  // high, low, counts
  DeviceBuffer<long long> d_words_; // of GridSums
  std::string path_;
};

const Registration registration({.name = "kmeans_cuda_resident",
                                 .idea = "few rows stay in shared memory, centroids stream by",
                                 .source = "kmeans_cuda_cells, with tiles as in SGEMM",
                                 .device = Device::gpu,
                                 .previous = "kmeans_cuda_cells"},
                                f32_only<KmeansCudaResident>());

} // namespace
} // namespace clusterbench

// Fuzzy c-means of any shape up to 256 clusters: two products of tiles, the weights between them.
//
// Changed since fcm_cuda_lanes: the sums need not stay in registers. A block measures a tile of
//   rows against all centres, a thread 8 (double: 4) of its rows against 8 clusters, while copies
//   bring the features of later steps. Lanes that share a row make its weights u^m, which go to
//   memory. A second launch multiplies weights and rows: a block has a tile of clusters and
//   features, and the rows of a slice; move_centres() adds up the slices.
// Distances of floats are sums of squared differences: an addition more a term than |x|^2 - 2 x.c +
//   |c|^2, but nothing cancels. Doubles have the digits for the latter.
// Source: article 001, sections 4.2 to 4.4; tiles as in any product of matrices.
// Cost per iteration: 2 n d values read, n k weights written and read; 3 n k d additions and
//   multiply-adds (double: 2 n k d), and n k reciprocals.
// Limits: k <= 256, padded to a power of two from 16 on, and n times that more memory. Same bits.
// Needs: sm_80
#include "impls/contract.hpp"
#include "impls/cuda/common/copies.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/fuzzy/fuzzy_run.cuh"

#include <algorithm>
#include <array>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;     // of a block that weighs
constexpr unsigned kStages = 3;        // steps of a product in shared memory
constexpr unsigned kClusters = 8;      // of a thread, at most
constexpr std::size_t kLongest = 8192; // rows that a thread adds up one by one

template <typename T>
constexpr unsigned kVector = 16 / sizeof(T);
template <typename T>
constexpr unsigned kDeep = 64 / sizeof(T); // features, or rows, of a step of a product

/// Starts copying one value to shared memory, or zero.
template <typename T>
__device__ void copy_value(T* to, const T* from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from),
               "n"(sizeof(T)), "r"(real ? static_cast<unsigned>(sizeof(T)) : 0u)
               : "memory");
}

/// Product number i of a thread: 16 bytes apart from those of its neighbours, so that a warp reads
/// and writes whole lines. `threads` share the side.
template <typename T>
__device__ unsigned place(unsigned thread, unsigned threads, unsigned i) {
  constexpr unsigned V = kVector<T>;
  return (i / V * threads + thread) * V + i % V;
}

/// Reads a thread's kCount values of a line of a tile.
template <unsigned kCount, typename T>
__device__ void read_line(const T* line, unsigned thread, unsigned threads, T (&values)[kCount]) {
#pragma unroll
  for (unsigned v = 0; v < kCount / kVector<T>; ++v) {
    const Vector<T> four = reinterpret_cast<const Vector<T>*>(line)[v * threads + thread];
#pragma unroll
    for (unsigned e = 0; e < kVector<T>; ++e) {
      values[v * kVector<T> + e] = four.at[e];
    }
  }
}

/// A warp a row: its squared length. rows: [n, d]
template <typename T>
__global__ void measure_rows(const T* __restrict__ rows, std::size_t n, unsigned d, T* squared) {
  const unsigned lane = threadIdx.x % 32;
  for (std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; i < n;
       i += std::size_t{gridDim.x} * blockDim.x / 32) {
    T sum = 0;
    for (unsigned f = lane; f < d; f += 32) {
      sum += rows[i * d + f] * rows[i * d + f];
    }
    sum = over_lanes<32>(sum);
    if (lane == 0) {
      squared[i] = sum;
    }
  }
}

template <typename T>
constexpr bool kExpanded = sizeof(T) == 8; // |x|^2 - 2 x.c + |c|^2
/// Squared lengths of rows [n] and centres [k], for the expanded form.
template <typename T>
struct Lengths {
  const T* rows;
  const T* centres;
};

/// A thread has R rows and C clusters; TX of them share a row.
template <typename T_, unsigned TX_, unsigned C_>
struct Weighing {
  using T = T_;
  static constexpr unsigned TX = TX_, C = C_, TY = kThreads / TX, R = sizeof(T) == 4 ? 8 : 4;
  static constexpr unsigned kRows = TY * R, kWidth = TX * C; // of a tile
  static constexpr unsigned kLine = kRows + kVector<T>;      // and a gap: fewer bank conflicts
  static constexpr unsigned kCentres = kWidth + kVector<T>;
  static constexpr unsigned kStage = kDeep<T> * (kLine + kCentres);
};

/// Weights u^m [n, kWidth] of all rows, and their sums: masses [blocks, k], found: [blocks]. kTwo:
/// m is 2.
template <typename S, bool kTwo>
__global__ void __launch_bounds__(kThreads, 2) // one computes while the other makes its weights
    weigh_tiles(const __grid_constant__ FuzzySweep<typename S::T> sweep,
                const Lengths<typename S::T> lengths, typename S::T* weights, typename S::T* masses,
                double* found_by_block) {
  using T = typename S::T;
  constexpr unsigned TX = S::TX, TY = S::TY, R = S::R, C = S::C, D = kDeep<T>;
  extern __shared__ __align__(16) unsigned char s_bytes[];
  T* s_stages = reinterpret_cast<T*>(s_bytes); // each: rows [D, kLine], centres [D, kCentres]
  __shared__ T s_masses[S::kWidth];
  const unsigned tx = threadIdx.x % TX, ty = threadIdx.x / TX, d = sweep.d, k = sweep.k;
  const unsigned steps = sweep.given != nullptr ? 0 : (d + D - 1) / D;
  const auto fetch = [&](std::size_t first, unsigned step, unsigned stage) {
    if (step < steps && first < sweep.n) {
      const unsigned f = step * D + threadIdx.x % D,
                     line = threadIdx.x / D; // neighbours read neighbours
      T* to_rows = s_stages + stage * S::kStage + threadIdx.x % D * S::kLine;
      T* to_centres = s_stages + stage * S::kStage + D * S::kLine + threadIdx.x % D * S::kCentres;
      const std::size_t left = sweep.n - first, skipped = std::size_t{kThreads / D} * d;
      const T* row = sweep.rows + (first + line) * d + f;
#pragma unroll
      for (unsigned e = line; e < S::kRows; e += kThreads / D, row += skipped) {
        const bool real = f < d && e < left;
        copy_value(to_rows + e, real ? row : sweep.rows, real);
      }
      const T* centre = sweep.centres + std::size_t{line} * d + f;
#pragma unroll
      for (unsigned e = line; e < S::kWidth; e += kThreads / D, centre += skipped) {
        const bool real = f < d && e < k;
        copy_value(to_centres + e, real ? centre : sweep.centres, real);
      }
    }
    cp_async_commit(); // one group a step, if only an empty one: so they can be counted
  };
  const auto begin = [&](std::size_t first) {
#pragma unroll
    for (unsigned step = 0; step + 1 < kStages; ++step) {
      fetch(first, step, step);
    }
  };
  T mass[C] = {};
  double found = 0.0;
  const std::size_t stride = std::size_t{gridDim.x} * S::kRows;
  begin(std::size_t{blockIdx.x} * S::kRows);
#pragma unroll 1
  for (std::size_t first = std::size_t{blockIdx.x} * S::kRows; first < sweep.n; first += stride) {
    T squared[R][C] = {};
    unsigned stage = 0;
#pragma unroll 1
    for (unsigned step = 0; step < steps; ++step) {
      cp_async_wait<kStages - 2>();
      __syncthreads(); // this step's values are there, and nobody needs those of the one before
      fetch(first, step + kStages - 1, stage == 0 ? kStages - 1 : stage - 1);
      const T* s_rows = s_stages + stage * S::kStage;
#pragma unroll 4 // more would not stay in the instruction cache
      for (unsigned f = 0; f < D; ++f) {
        T x[R], c[C];
        read_line(s_rows + f * S::kLine, ty, TY, x);
        read_line(s_rows + D * S::kLine + f * S::kCentres, tx, TX, c);
#pragma unroll
        for (unsigned e = 0; e < R * C; ++e) {
          const T difference = kExpanded<T> ? T{0} : x[e / C] - c[e % C];
          squared[e / C][e % C] +=
              kExpanded<T> ? x[e / C] * c[e % C] : difference * difference; // or the products
        }
      }
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    __syncthreads(); // nobody needs this tile
    begin(first + stride);
    const auto cluster_of = [tx](unsigned e) { return place<T>(tx, TX, e); };
    const auto over = [](auto v, auto combine) {
#pragma unroll
      for (unsigned bit = 1; bit < TX; bit *= 2) {
        v = combine(v, __shfl_xor_sync(kAllLanes, v, bit));
      }
      return v;
    };
    const auto lanes = row_lanes<kVector<T>, C>(cluster_of, over, true);
#pragma unroll
    for (unsigned r = 0; r < R; ++r) {
      const std::size_t row = first + place<T>(ty, TY, r);
      if (kExpanded<T> && steps > 0) {
        const T length = lengths.rows[min(row, sweep.n - 1)];
#pragma unroll
        for (unsigned e = 0; e < C; ++e) {
          const T whole = length + lengths.centres[min(cluster_of(e), k - 1)];
          squared[r][e] = max(whole - 2 * squared[r][e], T{0});
        }
      }
#pragma unroll
      for (unsigned e = 0; e < C; ++e) {
        squared[r][e] = cluster_of(e) < k ? squared[r][e] : kNoCentre<T>;
      }
      weigh_rows<kTwo, 1>(
          sweep, lanes, [row](unsigned) { return row; }, squared[r], found);
      if (row < sweep.n) {
#pragma unroll
        for (unsigned v = 0; v < C / kVector<T>; ++v) {
          Vector<T> some;
#pragma unroll
          for (unsigned e = 0; e < kVector<T>; ++e) {
            some.at[e] = squared[r][v * kVector<T> + e];
            mass[v * kVector<T> + e] += some.at[e];
          }
          reinterpret_cast<Vector<T>*>(weights + row * S::kWidth)[v * TX + tx] = some;
        }
      }
    }
  }
  for (unsigned turn = 0; turn < TY; ++turn) { // one after another: always the same bits
    if (ty == turn) {
#pragma unroll
      for (unsigned e = 0; e < C; ++e) {
        T& total = s_masses[place<T>(tx, TX, e)];
        total = turn == 0 ? mass[e] : total + mass[e];
      }
    }
    __syncthreads(); // that turn has ended
  }
  for (unsigned j = threadIdx.x; j < k; j += kThreads) {
    masses[blockIdx.x * k + j] = s_masses[j];
  }
  leave_found(found, found_by_block + blockIdx.x);
}

/// A tile of kTall clusters times kWide features, of which a thread has C times F.
template <typename T_, unsigned kTall_, unsigned kWide_>
struct Adding {
  using T = T_;
  static constexpr unsigned kTall = kTall_, kWide = kWide_, C = 8, F = sizeof(T) == 4 ? 8 : 4;
  static constexpr unsigned TX = kWide / F, TY = kTall / C, kTeam = TX * TY; // threads
  static constexpr unsigned kStage = kDeep<T> * (kTall + kWide);
};

/// Sums of weight times row of a slice: sums [slices, k d]. weights: [n, width]. Blocks that need
/// the same rows follow one another: grid (tiles of clusters, tiles of features, slices).
template <typename S>
__global__ void __launch_bounds__(S::kTeam, 512 / S::kTeam)
    add_tiles(const FuzzySweep<typename S::T> sweep, const typename S::T* __restrict__ weights,
              unsigned width, typename S::T* sums) {
  using T = typename S::T;
  constexpr unsigned C = S::C, F = S::F, TX = S::TX, TY = S::TY, V = kVector<T>, D = kDeep<T>;
  extern __shared__ __align__(16) unsigned char s_bytes[];
  T* s_stages = reinterpret_cast<T*>(s_bytes); // each: weights [D, kTall], rows [D, kWide]
  const unsigned tx = threadIdx.x % TX, ty = threadIdx.x / TX, d = sweep.d;
  const unsigned first_j = blockIdx.x * S::kTall, first_f = blockIdx.y * S::kWide;
  const std::size_t begin = sweep.n * blockIdx.z / gridDim.z;
  const std::size_t end = sweep.n * (blockIdx.z + 1) / gridDim.z;
  const auto fetch = [&](std::size_t first, unsigned stage) {
    if (first < end) {
      T* to_weights = s_stages + stage * S::kStage;
      T* to_rows = to_weights + D * S::kTall;
#pragma unroll
      for (unsigned e = threadIdx.x; e < D * S::kTall / V; e += S::kTeam) {
        const unsigned i = e / (S::kTall / V), at = e % (S::kTall / V) * V;
        if (first + i < end) {
          cp_async(to_weights + e * V, weights + (first + i) * width + first_j + at);
        } else {
          reinterpret_cast<Vector<T>*>(to_weights)[e] = {};
        }
      }
      constexpr unsigned kAtOnce = S::kTeam < S::kWide ? S::kTeam : S::kWide; // of a row
#pragma unroll
      for (unsigned part = 0; part < S::kWide / kAtOnce; ++part) {
        const unsigned line = threadIdx.x / kAtOnce, at = part * kAtOnce + threadIdx.x % kAtOnce;
        const bool inside = first_f + at < d;
        const T* row = sweep.rows + (first + line) * d + first_f + at;
#pragma unroll
        for (unsigned i = line; i < D; i += S::kTeam / kAtOnce, row += S::kTeam / kAtOnce * d) {
          const bool real = inside && first + i < end;
          copy_value(to_rows + i * S::kWide + at, real ? row : sweep.rows, real);
        }
      }
    }
    cp_async_commit(); // one group a step, if only an empty one: so they can be counted
  };
  T sum[C][F] = {};
#pragma unroll
  for (unsigned step = 0; step + 1 < kStages; ++step) {
    fetch(begin + step * D, step);
  }
  unsigned stage = 0;
#pragma unroll 1
  for (std::size_t first = begin; first < end; first += D) {
    cp_async_wait<kStages - 2>();
    __syncthreads(); // this step's values are there, and nobody needs those of the one before
    fetch(first + (kStages - 1) * D, stage == 0 ? kStages - 1 : stage - 1);
    const T* s_weights = s_stages + stage * S::kStage;
#pragma unroll 4 // more would not stay in the instruction cache
    for (unsigned i = 0; i < D; ++i) {
      T w[C], x[F];
      read_line(s_weights + i * S::kTall, ty, TY, w);
      read_line(s_weights + D * S::kTall + i * S::kWide, tx, TX, x);
#pragma unroll
      for (unsigned e = 0; e < C * F; ++e) {
        sum[e / F][e % F] += w[e / F] * x[e % F];
      }
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
#pragma unroll
  for (unsigned e = 0; e < C * F; ++e) {
    const unsigned j = first_j + place<T>(ty, TY, e / F), f = first_f + place<T>(tx, TX, e % F);
    if (j < sweep.k && f < d) {
      sums[(std::size_t{blockIdx.z} * sweep.k + j) * d + f] = sum[e / F][e % F];
    }
  }
}

template <typename T>
using WeighTiles = void (*)(FuzzySweep<T>, Lengths<T>, T*, T*, double*);

template <typename T>
struct Weigher {
  unsigned width, rows; // of a tile
  std::size_t bytes;
  WeighTiles<T> weigh, weigh_two; ///< the latter where the fuzzifier is 2
};
template <typename T, unsigned TX, unsigned C>
constexpr Weigher<T> weigher() {
  using S = Weighing<T, TX, C>;
  return {S::kWidth, S::kRows, kStages * S::kStage * sizeof(T), weigh_tiles<S, false>,
          weigh_tiles<S, true>};
}
/// The first that is wide enough is taken.
template <typename T>
constexpr std::array kWeighers{weigher<T, 4, kClusters / 2>(), weigher<T, 4, kClusters>(),
                               weigher<T, 8, kClusters>(), weigher<T, 16, kClusters>(),
                               weigher<T, 32, kClusters>()};

template <typename T>
struct Adder {
  unsigned tall, wide, threads;
  std::size_t bytes;
  void (*add)(FuzzySweep<T>, const T*, unsigned, T*);
};
template <typename T, unsigned kTall, unsigned kWide>
constexpr Adder<T> adder() {
  using S = Adding<T, kTall, kWide>;
  return {kTall, kWide, S::kTeam, kStages * S::kStage * sizeof(T), add_tiles<S>};
}
/// The last that is no taller than the weights, and no wider than the features need, is taken.
template <typename T>
constexpr std::array kAdders{adder<T, 16, 128>(), adder<T, 32, 64>(),  adder<T, 32, 128>(),
                             adder<T, 64, 64>(),  adder<T, 64, 128>(), adder<T, 128, 64>(),
                             adder<T, 128, 128>()};

template <typename T>
class FcmCudaTiles final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    if (!(shape.fuzzifier > 1.0)) {
      return "the fuzzifier must be greater than 1";
    }
    const unsigned most = kWeighers<T>.back().width;
    return shape.k <= most
               ? ""
               : "k = " + std::to_string(shape.k) + " clusters: a row's weights are made of " +
                     std::to_string(most) + " distances at most";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    weigher_ = *std::ranges::find_if(kWeighers<T>,
                                     [&](const Weigher<T>& w) { return shape.k <= w.width; });
    adder_ = kAdders<T>.front();
    for (const Adder<T>& adder : kAdders<T>) {
      adder_ = adder.tall <= weigher_.width && (adder.wide == 64 || shape.d > 64) ? adder : adder_;
    }
    weigh_ = shape.fuzzifier == 2.0 ? weigher_.weigh_two : weigher_.weigh;
    allow_shared_memory(weigh_, weigher_.bytes);
    allow_shared_memory(adder_.add, adder_.bytes);
    blocks_ =
        blocks_at_most(shape.n, weigher_.rows, resident_blocks(weigh_, kThreads, weigher_.bytes));
    // As many slices as fill the device, and short enough that a float keeps its digits.
    const std::size_t tiles = ceil_div(shape.k, adder_.tall) * ceil_div(shape.d, adder_.wide);
    slices_ = resident_blocks(adder_.add, adder_.threads, adder_.bytes) / tiles;
    slices_ = std::max({slices_, ceil_div(shape.n, kLongest), std::size_t{1}});
    slices_ = std::min({slices_, ceil_div(shape.n, kDeep<T>), std::size_t{65535}}); // of a grid
    d_weights_ = DeviceBuffer<T>(shape.n * weigher_.width);
    run_.prepare(shape, points.rows, slices_, blocks_);
    d_ = static_cast<unsigned>(shape.d);
    if (kExpanded<T>) {
      d_row_lengths_ = DeviceBuffer<T>(shape.n);
      d_centre_lengths_ = DeviceBuffer<T>(shape.k);
      measure(points.rows.data(), shape.n, d_row_lengths_.data());
    }
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    run_.run(start, answer, observer, [&](const FuzzySweep<T>& sweep) {
      if (kExpanded<T> && sweep.given == nullptr) {
        measure(sweep.centres, sweep.k, d_centre_lengths_.data());
      }
      weigh_<<<blocks_, kThreads, weigher_.bytes>>>(
          sweep, {d_row_lengths_.data(), d_centre_lengths_.data()}, d_weights_.data(),
          run_.masses(), run_.found());
      check_launch("weigh_tiles");
      const dim3 grid(static_cast<unsigned>(ceil_div(sweep.k, adder_.tall)),
                      static_cast<unsigned>(ceil_div(sweep.d, adder_.wide)),
                      static_cast<unsigned>(slices_));
      adder_.add<<<grid, adder_.threads, adder_.bytes>>>(sweep, d_weights_.data(), weigher_.width,
                                                         run_.sums());
      check_launch("add_tiles");
    });
  }

private:
  void measure(const T* rows, std::size_t n, T* squared) const {
    measure_rows<<<blocks_at_most(n, 8, 65536), 256>>>(rows, n, d_, squared);
    check_launch("measure_rows");
  }

  Weigher<T> weigher_{};
  WeighTiles<T> weigh_ = nullptr;
  Adder<T> adder_{};
  unsigned d_ = 0;
  unsigned blocks_ = 0; // that weigh
  std::size_t slices_ = 0;
  DeviceBuffer<T> d_weights_; // [n, width]
  DeviceBuffer<T> d_row_lengths_, d_centre_lengths_;
  FuzzyRun<T> run_;
};

const Registration
    registration({.name = "fcm_cuda_tiles",
                  .idea = "two products of tiles, the weights between them in memory",
                  .source = "article 001, sections 4.2 to 4.4, as two products",
                  .family = Family::fcm,
                  .device = Device::gpu,
                  .distance = DistanceForm::expanded, // of double
                  .max_k = 256,
                  .previous = "fcm_cuda_lanes"},
                 both_precisions<FcmCudaTiles>());

} // namespace
} // namespace clusterbench

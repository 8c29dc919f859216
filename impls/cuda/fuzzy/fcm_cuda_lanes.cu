// Fuzzy c-means in one pass over the data while the sums stay in registers: lanes own centre
// values.
//
// Changed since fcm_cuda_warp: a row is read once an iteration, into registers, and never leaves
//   them. A thread owns up to 8 features of up to 8 clusters. It adds up its part of some rows'
//   distances, its team (a part of a warp, or up to 16 warps) exchanges these parts, and it adds
//   the weighted rows to the sums of its own centre values. The exchange halves what a lane carries
//   in each step (distribute()), so each lane makes the memberships of other pairs of row and
//   cluster.
// Distances are sums of squared differences: a row on a centre is at distance 0.
// Source: article 001, sections 4.2 to 4.4, as one pass; float and double.
// Cost per iteration: n d values; 3 n k d additions and multiply-adds, and n k reciprocals.
// Limits: k d values of shared memory, and 8 x 16 (double: 8) lanes for the features: k <= 8 up to
//   4096 features, k <= 16 up to 2048 (double: half of these), k <= 128 up to 128 (double: 112),
//   k <= 256 up to 64; else refused. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/fuzzy/fuzzy_run.cuh"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kWarps = 16; // of a block, at most

/// A thread has F features of C clusters; LF lanes of a warp share the features of a row, times LC
/// its clusters. R rows at once.
template <typename T_, unsigned F_, unsigned C_, unsigned LF_, unsigned LC_>
struct Team {
  using T = T_;
  static constexpr unsigned F = F_, C = C_, LF = LF_, LC = LC_;
  static constexpr bool kManySums = F * C == 64;
  static constexpr unsigned R = sizeof(T) == 4 ? 16 / C : kManySums && LF == 1 ? 1 : 2;
  // Warps of a block. Of threads with many sums few warps fit a multiprocessor, and smaller blocks
  // leave fewer of its registers unused.
  static constexpr unsigned kUsualWarps = kManySums && sizeof(T) == 4 ? 4 : 8;
  // Warps of a team, at most: one where a wider team has a kernel of its own.
  static constexpr unsigned kMostWarps = LF * LC < 32 || F < 8       ? 1
                                         : sizeof(T) == 4 && LC <= 2 ? kWarps
                                                                     : kWarps / 2;
  static constexpr unsigned kMostThreads = 32 * std::max(kMostWarps, kUsualWarps);
  // As many threads of a multiprocessor as were fastest: more would have too few registers.
  static constexpr unsigned kThreads = sizeof(T) == 8 ? 256 : kManySums ? 384 : 512;
  static constexpr unsigned kBlocks = std::max(1u, kThreads / kMostThreads);
  // The next rows are read while these are weighed, if there are registers for them.
  static constexpr bool kAhead =
      kMostThreads <= 256 && R * F <= 16 && !(sizeof(T) == 8 && kManySums);
  static constexpr unsigned N = R * C;                // pairs of a row and a cluster
  static constexpr unsigned M = N > LF ? N / LF : 1;  // of them a lane's own after the exchange
  static constexpr unsigned V = 16 / sizeof(T);       // values of a vector
  static constexpr unsigned G = F < V ? F : V;        // neighbouring features
  static constexpr unsigned kOfWarp = 32 / (LF * LC); // teams
};

/// Adds up each of N values over L lanes whose numbers differ in the lowest bits. Each step sends
/// half of the values away: a bit of the lane tells which half of what is left it keeps. In the end
/// value[0 ..] are those from first_kept() on; where lanes outnumber values, several have the same.
template <unsigned N, unsigned L, unsigned kBit = 1, typename T, unsigned kSize>
__device__ void distribute(T (&value)[kSize], unsigned lane) {
  if constexpr (kBit < L) {
    if constexpr (N > 1) {
      const bool upper = (lane & kBit) != 0;
#pragma unroll
      for (unsigned v = 0; v < N / 2; ++v) {
        const T given = upper ? value[v] : value[v + N / 2];
        const T kept = upper ? value[v + N / 2] : value[v];
        value[v] = kept + __shfl_xor_sync(kAllLanes, given, kBit);
      }
      distribute<N / 2, L, 2 * kBit>(value, lane);
    } else {
      value[0] += __shfl_xor_sync(kAllLanes, value[0], kBit);
      distribute<1, L, 2 * kBit>(value, lane);
    }
  }
}
template <unsigned N, unsigned L>
__device__ unsigned first_kept(unsigned lane) {
  unsigned first = 0;
#pragma unroll
  for (unsigned bit = 1, half = N / 2; bit < L && half > 0; bit *= 2, half /= 2) {
    first += (lane & bit) != 0 ? half : 0;
  }
  return first;
}

/// A barrier of the warps of a team.
__device__ void team_barrier(unsigned team, unsigned warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "r"(warps * 32) : "memory");
}

/// A cluster's number: lanes side by side have V neighbours each, so that they write whole lines.
template <typename S>
__device__ unsigned cluster_of_lane(unsigned lc, unsigned c) {
  return (c / S::V * S::LC + lc) * S::V + c % S::V;
}

/// Where centre values lie in shared memory: what the lanes of a team read at once is side by side.
template <typename S>
struct Places {
  unsigned members;                                                       // threads of a team
  __device__ unsigned of(unsigned member, unsigned i, unsigned c) const { // vectors, of V clusters
    return (i * (S::C / S::V) + c) * members + member;
  }
  __device__ unsigned of_value(unsigned j, unsigned f) const {
    const unsigned warp = f / (S::LF * S::F), of_warp = f % (S::LF * S::F);
    const unsigned i = of_warp / (S::LF * S::G) * S::G + f % S::G;
    const unsigned lc = j / S::V % S::LC, c = j / (S::V * S::LC);
    const unsigned member = (warp * S::LC + lc) * S::LF + of_warp % (S::LF * S::G) / S::G;
    return of(member, i, c) * S::V + j % S::V;
  }
};

/// A team has `warps` warps, a block some teams. wide: rows can be read in groups. kTwo: the
/// fuzzifier is 2. Dynamic shared memory: see below. sums: [blocks, k d], masses: [blocks, k],
/// found: [blocks]
template <typename S, bool kTwo>
__global__ void __launch_bounds__(S::kMostThreads, S::kBlocks)
    sweep_rows(const __grid_constant__ FuzzySweep<typename S::T> sweep, const unsigned warps,
               const bool wide, typename S::T* sums, typename S::T* masses,
               double* found_by_block) {
  using T = typename S::T;
  constexpr unsigned F = S::F, C = S::C, LF = S::LF, LC = S::LC, R = S::R, N = S::N, M = S::M;
  constexpr unsigned V = S::V, G = S::G, kOfWarp = S::kOfWarp;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned part = warp % warps, team = warp / warps, teams = blockDim.x / 32 / warps;
  const unsigned lf = lane % LF, lc = lane / LF % LC, sub = lane / (LF * LC);
  const unsigned member = (part * LC + lc) * LF + lf;
  const Places<S> places{warps * LF * LC};
  const unsigned width = warps * LF * F;
  extern __shared__ __align__(16) unsigned char s_bytes[];
  // Dynamic: centres, later sums, then weights [warps, 32 / LF, N and a gap], then parts of
  // distances [2, warps, M, 32].
  Vector<T>* s_centres = reinterpret_cast<Vector<T>*>(s_bytes);
  T* s_sums = reinterpret_cast<T*>(s_bytes);
  T* s_weights = s_sums + places.members * F * C;
  T* s_parts = s_weights + (LF > 1 ? kWarps * (32 / LF) * (N + V) : 0);
  __shared__ T s_masses[C * LC];
  const T far = sqrt(kNoCentre<T>);
  for (unsigned e = threadIdx.x; e < C * LC * width; e += blockDim.x) {
    const unsigned j = e / width, f = e % width;
    s_sums[places.of_value(j, f)] = f >= sweep.d  ? T{0}
                                    : j < sweep.k ? sweep.centres[std::size_t{j} * sweep.d + f]
                                                  : far;
  }
  __syncthreads(); // the centres are there

  constexpr unsigned kChunk = R * kOfWarp; // rows
  const std::size_t step = std::size_t{gridDim.x} * teams * kChunk, n = sweep.n;
  const unsigned own = (part * F / G * LF + lf) * G, stride = kOfWarp * sweep.d;
  const T* from = sweep.rows + own;                       // of row 0
  const auto read = [&](std::size_t chunk, T(&x)[R][F]) { // rows behind the last are zero
    const T* row = from + (chunk + sub) * sweep.d;
#pragma unroll
    for (unsigned r = 0; r < R; ++r, row += stride) {
      const bool real = chunk + r * kOfWarp + sub < n;
#pragma unroll
      for (unsigned g = 0; g < F / G; ++g) {
        const unsigned f = own + g * LF * G;
        Group<T, G> some = {};
        if (wide) {
          some =
              real && f < sweep.d ? *reinterpret_cast<const Group<T, G>*>(row + g * LF * G) : some;
        } else {
#pragma unroll
          for (unsigned e = 0; e < G; ++e) {
            some.at[e] = real && f + e < sweep.d ? row[g * LF * G + e] : T{0};
          }
        }
#pragma unroll
        for (unsigned e = 0; e < G; ++e) {
          x[r][g * G + e] = some.at[e];
        }
      }
    }
  };
  T sum[F + 1][C] = {}; // the last: of the weights alone
  double found = 0.0;
  std::size_t chunk = (std::size_t{blockIdx.x} * teams + team) * kChunk; // its first row
  unsigned turn = 0;
  T next[R][F];
  if (S::kAhead && chunk < n) {
    read(chunk, next);
  }
#pragma unroll 1
  for (; chunk < n; chunk += step) {
    T x[R][F];
    if constexpr (S::kAhead) {
#pragma unroll
      for (unsigned e = 0; e < R * F; ++e) {
        x[e / F][e % F] = next[e / F][e % F];
      }
      read(chunk + step, next); // on their way while these are weighed
    } else {
      read(chunk, x);
    }
    T value[N] = {}; // pair v: row v / C, cluster v % C of the lane's own
#pragma unroll
    for (unsigned i = 0; i < F; ++i) {
#pragma unroll
      for (unsigned c = 0; c < C / V; ++c) {
        const Vector<T> centres = s_centres[places.of(member, i, c)];
#pragma unroll
        for (unsigned e = 0; e < V * R; ++e) {
          const unsigned r = e / V, v = e % V;
          const T difference = x[r][i] - centres.at[v];
          value[r * C + c * V + v] += difference * difference;
        }
      }
    }
    distribute<N, LF>(value, lf);
    if (S::kMostWarps > 1 && warps > 1) {
      T* s_turn = s_parts + turn * kWarps * M * 32;
#pragma unroll
      for (unsigned e = 0; e < M; ++e) {
        s_turn[(warp * M + e) * 32 + lane] = value[e];
        value[e] = 0;
      }
      team_barrier(team, warps); // all parts are there; those of the turn before have been read
      for (unsigned w = 0; w < warps; ++w) {
#pragma unroll
        for (unsigned e = 0; e < M; ++e) {
          value[e] += s_turn[((team * warps + w) * M + e) * 32 + lane];
        }
      }
      turn = 1 - turn;
    }
    // All warps of a team make the same weights.
    constexpr unsigned K = M < C ? M : C; // clusters of a row that are this lane's
    const unsigned first = first_kept<N, LF>(lf);
    const bool writes = part == 0 && lf < N;
    const auto over = [](auto v, auto combine) {
#pragma unroll
      for (unsigned bit = R; bit < LF && bit < N; bit *= 2) { // lanes with the row's other clusters
        v = combine(v, __shfl_xor_sync(kAllLanes, v, bit));
      }
#pragma unroll
      for (unsigned bit = LF; bit < LF * LC; bit *= 2) {
        v = combine(v, __shfl_xor_sync(kAllLanes, v, bit));
      }
      return v;
    };
    const auto lanes = row_lanes<(K < V ? K : V), K>(
        [first, lc](unsigned e) { return cluster_of_lane<S>(lc, (first + e) % C); }, over, writes);
    weigh_rows<kTwo, M / K>(
        sweep, lanes, [=](unsigned r) { return chunk + (first + r * K) / C * kOfWarp + sub; },
        value, found);
    if constexpr (LF > 1) { // each lane needs all weights of its clusters
      T* s_own = s_weights + (warp * (32 / LF) + lane / LF) * (N + V);
      if (lf < N) {
#pragma unroll
        for (unsigned e = 0; e < M; ++e) {
          s_own[first + e] = value[e];
        }
      }
      __syncwarp(); // all are there
#pragma unroll
      for (unsigned v = 0; v < N / V; ++v) {
        const Vector<T> weights = reinterpret_cast<const Vector<T>*>(s_own)[v];
#pragma unroll
        for (unsigned e = 0; e < V; ++e) {
          value[v * V + e] = weights.at[e];
        }
      }
      __syncwarp(); // all have been read
    }
#pragma unroll
    for (unsigned v = 0; v < N; ++v) {
#pragma unroll
      for (unsigned i = 0; i < F; ++i) {
        sum[i][v % C] += value[v] * x[v / C][i];
      }
      sum[F][v % C] += value[v];
    }
  }

#pragma unroll
  for (unsigned bit = LF * LC; bit < 32; bit *= 2) { // the teams of a warp
#pragma unroll
    for (unsigned e = 0; e < (F + 1) * C; ++e) {
      sum[e / C][e % C] += __shfl_xor_sync(kAllLanes, sum[e / C][e % C], bit);
    }
  }
  for (unsigned turn_of = 0; turn_of < teams;
       ++turn_of) {  // one after another: always the same bits
    __syncthreads(); // nobody needs the centres, and the turn before has ended
    if (team == turn_of && sub == 0) {
#pragma unroll
      for (unsigned e = 0; e < F * C; ++e) {
        T& total = s_sums[places.of(member, e / C, e % C / V) * V + e % V];
        total = turn_of == 0 ? sum[e / C][e % C] : total + sum[e / C][e % C];
      }
#pragma unroll
      for (unsigned c = 0; c < C; ++c) {
        if (lf == 0 && part == 0) {
          T& total = s_masses[cluster_of_lane<S>(lc, c)];
          total = turn_of == 0 ? sum[F][c] : total + sum[F][c];
        }
      }
    }
  }
  __syncthreads(); // the block's sums are there
  const unsigned values = sweep.k * sweep.d;
  for (unsigned e = threadIdx.x; e < values; e += blockDim.x) {
    sums[std::size_t{blockIdx.x} * values + e] = s_sums[places.of_value(e / sweep.d, e % sweep.d)];
  }
  for (unsigned j = threadIdx.x; j < sweep.k; j += blockDim.x) {
    masses[blockIdx.x * sweep.k + j] = s_masses[j];
  }
  leave_found(found, found_by_block + blockIdx.x);
}

template <typename T>
using SweepRows = void (*)(FuzzySweep<T>, unsigned, bool, T*, T*, double*);

template <typename T>
struct Kernel {
  unsigned features; // of a warp
  unsigned clusters;
  unsigned group;       // features
  unsigned rows;        // of a warp at once
  unsigned most_warps;  // of a team
  unsigned usual_warps; // of a block whose teams have no more
  std::size_t bytes_of_warp, more_bytes;
  SweepRows<T> sweep, sweep_two; ///< the latter where the fuzzifier is 2

  unsigned warps(std::size_t d) const { return static_cast<unsigned>(ceil_div(d, features)); }
  unsigned teams(std::size_t d) const { return std::max(1u, usual_warps / warps(d)); }
  bool takes(std::size_t d, std::size_t k) const {
    return k <= clusters && d <= features * most_warps;
  }
  std::size_t shared_bytes(std::size_t d) const { return warps(d) * bytes_of_warp + more_bytes; }
};
template <typename T, unsigned F, unsigned C, unsigned LF, unsigned LC>
constexpr Kernel<T> kernel() {
  using S = Team<T, F, C, LF, LC>;
  return {F * LF,
          C * LC,
          S::G,
          S::R * S::kOfWarp,
          S::kMostWarps,
          S::kUsualWarps,
          LF * LC * F * C * sizeof(T),
          ((LF > 1 ? kWarps * (32 / LF) * (S::N + S::V) : 0) +
           (S::kMostWarps > 1 ? 2 * kWarps * S::M * 32 : 0)) *
              sizeof(T),
          sweep_rows<S, false>,
          sweep_rows<S, true>};
}
/// The first that takes a shape is the one for it.
template <typename T>
constexpr std::array kKernels{
    kernel<T, 2, 4, 1, 1>(),  kernel<T, 4, 4, 1, 1>(),  kernel<T, 8, 4, 1, 1>(),
    kernel<T, 8, 4, 2, 1>(),  kernel<T, 8, 4, 4, 1>(),  kernel<T, 8, 4, 8, 1>(),
    kernel<T, 8, 4, 16, 1>(), kernel<T, 8, 4, 32, 1>(), kernel<T, 2, 8, 1, 1>(),
    kernel<T, 4, 8, 1, 1>(),  kernel<T, 8, 8, 1, 1>(),  kernel<T, 8, 8, 2, 1>(),
    kernel<T, 8, 8, 4, 1>(),  kernel<T, 8, 8, 8, 1>(),  kernel<T, 8, 8, 16, 1>(),
    kernel<T, 8, 8, 32, 1>(), kernel<T, 2, 8, 1, 2>(),  kernel<T, 4, 8, 1, 2>(),
    kernel<T, 8, 8, 1, 2>(),  kernel<T, 8, 8, 2, 2>(),  kernel<T, 8, 8, 4, 2>(),
    kernel<T, 8, 8, 8, 2>(),  kernel<T, 8, 8, 16, 2>(), kernel<T, 2, 8, 1, 4>(),
    kernel<T, 4, 8, 1, 4>(),  kernel<T, 8, 8, 1, 4>(),  kernel<T, 8, 8, 2, 4>(),
    kernel<T, 2, 8, 1, 8>(),  kernel<T, 4, 8, 1, 8>(),  kernel<T, 8, 8, 1, 8>(),
    kernel<T, 8, 8, 2, 8>(),  kernel<T, 2, 8, 1, 16>(), kernel<T, 4, 8, 1, 16>(),
    kernel<T, 8, 8, 1, 16>(), kernel<T, 8, 8, 2, 16>(), kernel<T, 2, 8, 1, 32>(),
    kernel<T, 4, 8, 1, 32>(), kernel<T, 8, 8, 1, 32>()};

template <typename T>
class FcmCudaLanes final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    if (!(shape.fuzzifier > 1.0)) {
      return "the fuzzifier must be greater than 1";
    }
    return find(shape) != nullptr
               ? ""
               : "d = " + std::to_string(shape.d) + ", k = " + std::to_string(shape.k) +
                     ": the sums do not stay in a block's registers, and fcm_cuda_tiles is faster";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    kernel_ = *find(shape);
    sweep_ = shape.fuzzifier == 2.0 ? kernel_.sweep_two : kernel_.sweep;
    warps_ = kernel_.warps(shape.d);
    threads_ = warps_ * kernel_.teams(shape.d) * 32;
    bytes_ = kernel_.shared_bytes(shape.d);
    allow_shared_memory(sweep_, bytes_);
    blocks_ = blocks_at_most(shape.n, kernel_.rows * kernel_.teams(shape.d),
                             resident_blocks(sweep_, threads_, bytes_));
    wide_ = shape.d % kernel_.group == 0 &&
            reinterpret_cast<std::uintptr_t>(points.rows.data()) % 16 == 0;
    run_.prepare(shape, points.rows, blocks_, blocks_);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    run_.run(start, answer, observer, [&](const FuzzySweep<T>& sweep) {
      sweep_<<<blocks_, threads_, bytes_>>>(sweep, warps_, wide_, run_.sums(), run_.masses(),
                                            run_.found());
      check_launch("sweep_rows");
    });
  }

private:
  static const Kernel<T>* find(const Shape& shape) {
    const auto found = std::ranges::find_if(kKernels<T>, [&](const Kernel<T>& kernel) {
      return kernel.takes(shape.d, shape.k) &&
             kernel.shared_bytes(shape.d) <= shared_memory_limit();
    });
    return found == kKernels<T>.end() ? nullptr : &*found;
  }

  Kernel<T> kernel_{};
  SweepRows<T> sweep_ = nullptr;
  bool wide_ = false;
  unsigned warps_ = 0, threads_ = 0, blocks_ = 0; // of a team, of a block, of a sweep
  std::size_t bytes_ = 0;                         // of shared memory
  FuzzyRun<T> run_;
};

const Registration registration({.name = "fcm_cuda_lanes",
                                 .idea = "lanes own features and clusters, rows are read once",
                                 .source = "article 001, sections 4.2 to 4.4, as one pass",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .max_d = 4096,
                                 .max_k = 256,
                                 .previous = "fcm_cuda_warp"},
                                both_precisions<FcmCudaLanes>());

} // namespace
} // namespace clusterbench

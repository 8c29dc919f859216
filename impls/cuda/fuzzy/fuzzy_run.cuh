// Fuzzy c-means in sweeps over the points, and a launch for the centres after each: the weights of
// a row from its distances, means from the sums of blocks, and the order of a run.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace clusterbench::cuda {

/// G neighbouring values, for one access of memory.
template <typename T, unsigned G>
struct alignas(G * sizeof(T)) Group {
  T at[G];
};
/// What one access of memory takes at best.
template <typename T>
using Vector = Group<T, 16 / sizeof(T)>;

/// What a sweep reads and leaves, but for the sums.
template <typename T>
struct FuzzySweep {
  const T* rows;    // [n, d]
  const T* centres; // [k, d]
  const T* given;   // [n, k] initial memberships, which count instead of the centres; or null
  T* memberships;   // [n, k]
  std::int32_t* labels;
  std::size_t n;
  unsigned d, k;
  T fuzzifier;
  bool keep;    // memberships and labels
  bool vectors; // memberships of a row begin where a Vector may
  bool wants_loss, wants_labels;
};

/// The squared distance of a centre that does not exist. Finite, so that inverse() takes it.
template <typename T>
constexpr T kNoCentre = sizeof(T) == 4 ? T(0x1p120) : T(0x1p1000);
/// Sums of inverse squared distances between these are right: no inverse has overflowed, what is
/// lost of the smallest ones does not matter, and no coordinate is so large that a centre that does
/// not exist is near (docs/ladder/fuzzy.md).
template <typename T>
constexpr T kLeastSum = sizeof(T) == 4 ? T(0x1p-60) : T(0x1p-800);
template <typename T>
constexpr T kLargestSum = sizeof(T) == 4 ? T(0x1p100) : T(0x1p900);

/// 1 / a with an error of two units in the last place; where a or that is no normal number,
/// infinite, zero, or no number.
__device__ inline float inverse(float a) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(a));
  return inverse;
}
__device__ inline double inverse(double a) {
  double inverse; // some 20 bits; each step doubles them
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(a));
  inverse = fma(inverse, fma(-a, inverse, 1.0), inverse);
  return fma(inverse, fma(-a, inverse, 1.0), inverse);
}

/// Writes the memberships of one row from cluster j on, as far as there are clusters.
template <typename T, unsigned G>
__device__ void write_memberships(const FuzzySweep<T>& sweep, std::size_t row, unsigned j,
                                  const Group<T, G>& some) {
  T* to = sweep.memberships + row * sweep.k + j;
  if (sweep.vectors) {
    *reinterpret_cast<Group<T, G>*>(to) = some;
  } else {
#pragma unroll
    for (unsigned e = 0; e < G; ++e) {
      if (j + e < sweep.k) {
        to[e] = some.at[e];
      }
    }
  }
}

/// Lanes that share rows have K clusters of each. Number e of them is cluster_of(e), and
/// over(value, combine) combines over these lanes. G clusters at a time are neighbours, the first a
/// multiple of G. `writes` is true in one of the lanes that have the same cluster.
template <unsigned G_, unsigned K_, typename ClusterOf, typename Over>
struct RowLanes {
  static constexpr unsigned G = G_, K = K_;
  ClusterOf cluster_of;
  Over over;
  bool writes;
};
template <unsigned G, unsigned K, typename ClusterOf, typename Over>
__device__ RowLanes<G, K, ClusterOf, Over> row_lanes(ClusterOf cluster_of, Over over, bool writes) {
  return {cluster_of, over, writes};
}

/// Writes memberships [K] and the label of a row. Returns, in the lane that writes the label,
/// whether it has changed, if the stop rule asks for that.
template <typename T, typename Lanes>
__device__ bool keep_row(const FuzzySweep<T>& sweep, const Lanes& lanes, std::size_t row,
                         const T* membership) {
  constexpr unsigned G = Lanes::G, K = Lanes::K;
  T largest = 0;
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    largest = max(largest, membership[e]);
  }
  largest = lanes.over(largest, [](T a, T b) { return max(a, b); });
  unsigned label = sweep.k; // the lowest of equal ones
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    label = membership[e] == largest ? min(label, lanes.cluster_of(e)) : label;
  }
  label = lanes.over(label, [](unsigned a, unsigned b) { return min(a, b); });
  bool changed = false;
#pragma unroll
  for (unsigned g = 0; g < K / G; ++g) {
    const unsigned j = lanes.cluster_of(g * G);
    if (lanes.writes && row < sweep.n && j < sweep.k) {
      Group<T, G> some;
#pragma unroll
      for (unsigned e = 0; e < G; ++e) {
        some.at[e] = membership[g * G + e];
      }
      write_memberships(sweep, row, j, some);
      if (label - j < G) { // among these, and not below them
        changed = sweep.wants_labels && sweep.labels[row] != static_cast<std::int32_t>(label);
        sweep.labels[row] = static_cast<std::int32_t>(label);
      }
    }
  }
  return changed;
}

/// Turns squared distances [K] of a row into weights u^m, whatever the fuzzifier and the distances
/// are. Returns what it finds for the stop rule.
template <bool kTwo, typename T, typename Lanes>
__device__ double weigh_any_row(const FuzzySweep<T>& sweep, const Lanes& lanes, std::size_t row,
                                T* value) {
  constexpr unsigned K = Lanes::K;
  T nearest = INFINITY;
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    value[e] = lanes.cluster_of(e) < sweep.k ? value[e] : T{INFINITY};
    nearest = min(nearest, value[e]);
  }
  nearest = lanes.over(nearest, [](T a, T b) { return min(a, b); });
  // A membership is closeness over the sum of all, closeness = ratio^(1 / (m - 1)), so u^m is
  // closeness * ratio / sum^m. No ratio overflows; it is 1 for every centre that a point sits on.
  T ratio[K], close[K], total = 0;
  const T m = sweep.fuzzifier, exponent = T{1} / (m - T{1});
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    const T below_one = nearest / value[e]; // or no number, of a centre at distance 0
    ratio[e] = value[e] == nearest ? T{1} : below_one;
    close[e] = kTwo ? ratio[e] : exp2(log2(ratio[e]) * exponent);
    total += close[e];
  }
  total = lanes.over(total, [](T a, T b) { return a + b; });
  const T share = T{1} / total;
  const T scale = row >= sweep.n ? T{0} : kTwo ? share * share : exp2(-m * log2(total));
  double found = 0.0;
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    const T weight = close[e] * ratio[e] * scale;
    if (sweep.wants_loss && lanes.writes && lanes.cluster_of(e) < sweep.k) {
      found += static_cast<double>(weight) * static_cast<double>(value[e]);
    }
    value[e] = weight;
    close[e] *= share;
  }
  return found + (sweep.keep && keep_row(sweep, lanes, row, close) ? 1.0 : 0.0);
}
/// The same out of line, where it is rare: it would take registers from what is not.
template <typename T, typename Lanes>
__device__ __noinline__ double weigh_rare_row(const FuzzySweep<T>& sweep, const Lanes& lanes,
                                              std::size_t row, T* value) {
  return weigh_any_row<true>(sweep, lanes, row, value);
}

/// Turns the squared distances of R rows into weights u^m: value [R, K], number r of them is
/// row_of(r). Rows behind the last weigh nothing, nor do clusters behind the last, whose distance
/// must be about kNoCentre. Adds to `found` what the stop rule wants, and writes memberships and
/// labels. All lanes of a warp must call it together. kTwo: the fuzzifier is 2.
///
/// With m = 2 a membership is the inverse of the squared distance over the sum of all inverses.
/// Where that sum is far out, as for a point on a centre, weigh_any_row() is right.
template <bool kTwo, unsigned R, typename T, typename Lanes, typename RowOf>
__device__ void weigh_rows(const FuzzySweep<T>& sweep, const Lanes& lanes, RowOf row_of, T* value,
                           double& found) {
  constexpr unsigned K = Lanes::K;
  if (sweep.given != nullptr) {
#pragma unroll
    for (unsigned e = 0; e < R * K; ++e) {
      const std::size_t row = row_of(e / K);
      const unsigned j = lanes.cluster_of(e % K);
      const T u = row < sweep.n && j < sweep.k ? sweep.given[row * sweep.k + j] : T{0};
      value[e] = kTwo ? u * u : pow(u, sweep.fuzzifier);
    }
    return;
  }
  if constexpr (kTwo) {
    T close[R * K], total[R];
    bool usual = true;
#pragma unroll
    for (unsigned r = 0; r < R; ++r) {
      total[r] = 0;
#pragma unroll
      for (unsigned e = 0; e < K; ++e) {
        close[r * K + e] = inverse(value[r * K + e]);
        total[r] += close[r * K + e];
      }
      total[r] = lanes.over(total[r], [](T a, T b) { return a + b; });
      usual = usual && total[r] >= kLeastSum<T> && total[r] <= kLargestSum<T>;
    }
    if (!__all_sync(kAllLanes, usual)) {
#pragma unroll 1
      for (unsigned r = 0; r < R; ++r) {
        T of_row[K]; // so that `value` stays in registers
#pragma unroll
        for (unsigned e = 0; e < R * K; ++e) {
          of_row[e % K] = e / K == r ? value[e] : of_row[e % K];
        }
        found += weigh_rare_row(sweep, lanes, row_of(r), of_row);
#pragma unroll
        for (unsigned e = 0; e < R * K; ++e) {
          value[e] = e / K == r ? of_row[e % K] : value[e];
        }
      }
      return;
    }
    T share[R]; // of an inverse in the membership
#pragma unroll
    for (unsigned r = 0; r < R; ++r) {
      share[r] = row_of(r) < sweep.n ? inverse(total[r]) : T{0};
#pragma unroll
      for (unsigned e = 0; e < K; ++e) {
        close[r * K + e] *= share[r];
        value[r * K + e] = close[r * K + e] * close[r * K + e];
      }
    }
    if (sweep.keep || sweep.wants_loss) { // one branch for what few passes do
#pragma unroll
      for (unsigned r = 0; r < R; ++r) {
        if (sweep.wants_loss && lanes.writes && lanes.cluster_of(0) == 0) {
          found += static_cast<double>(share[r]); // the sum of u^2 / (u total)
        }
        if (sweep.keep) {
          found += keep_row(sweep, lanes, row_of(r), close + r * K) ? 1.0 : 0.0;
        }
      }
    }
  } else {
#pragma unroll
    for (unsigned r = 0; r < R; ++r) {
      found += weigh_any_row<false>(sweep, lanes, row_of(r), value + r * K);
    }
  }
}

/// All threads of a block, in whole warps: leaves the sum of their values.
__device__ inline void leave_found(double found, double* sum) {
  __shared__ double s_found[32];
  found = over_lanes<32>(found);
  if (threadIdx.x % 32 == 0) {
    s_found[threadIdx.x / 32] = found;
  }
  __syncthreads(); // those of all warps are there
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
      found += s_found[warp];
    }
    *sum = found;
  }
}

/// Moves each centre to its weighted mean; one without weight stays. A warp's lanes have
/// neighbouring values, its 32 warps some parts each. sums: [parts, k d], masses: [parts_of_masses,
/// k]; centres, entering, what they were: [k, d]
template <typename T>
__global__ void __launch_bounds__(1024)
    move_centres(const T* __restrict__ sums, unsigned parts, const T* __restrict__ masses,
                 unsigned parts_of_masses, unsigned d, unsigned k, T* centres, T* entering) {
  __shared__ double s_sums[32][33], s_masses[32][33];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned e = blockIdx.x * 32 + lane, at = min(e, k * d - 1), j = at / d;
  double sum = 0.0, mass = 0.0;
#pragma unroll 4 // loads that need not wait for one another
  for (unsigned part = warp; part < parts; part += 32) {
    sum += static_cast<double>(sums[std::size_t{part} * k * d + at]);
  }
#pragma unroll 4
  for (unsigned part = warp; part < parts_of_masses; part += 32) {
    mass += static_cast<double>(masses[std::size_t{part} * k + j]);
  }
  s_sums[warp][lane] = sum;
  s_masses[warp][lane] = mass;
  __syncthreads();                          // those of all warps are there
  sum = over_lanes<32>(s_sums[lane][warp]); // a warp a value
  mass = over_lanes<32>(s_masses[lane][warp]);
  const unsigned value = blockIdx.x * 32 + warp;
  if (lane == 0 && value < k * d) {
    const T old = centres[value];
    entering[value] = old;
    centres[value] = mass > 0.0 ? static_cast<T>(sum / mass) : old;
  }
}

/// What the stop rule asks for: facts[0], the sum of what the blocks found, and facts[1], the
/// squared shift, if it is wanted. One block, so that the order of the sums is always the same.
template <typename T>
__global__ void __launch_bounds__(1024)
    collect_facts(const double* found, unsigned blocks, const T* centres, const T* entering,
                  unsigned values, double* facts) {
  double sum = 0.0, shift = 0.0;
  for (unsigned block = threadIdx.x; block < blocks; block += blockDim.x) {
    sum += found[block];
  }
  for (unsigned e = threadIdx.x; e < values; e += blockDim.x) {
    const double moved = static_cast<double>(centres[e]) - static_cast<double>(entering[e]);
    shift += moved * moved;
  }
  leave_found(sum, facts);
  __syncthreads(); // the memory of the sums is free
  leave_found(shift, facts + 1);
}

/// The buffers of the sums, and the order of a run.
template <typename T>
class FuzzyRun {
public:
  /// parts: that the sums over the points are left in, and those of the weights alone. The points
  /// [n, d] must outlive this. Does not block. Throws std::runtime_error.
  void prepare(const Shape& shape, std::span<const T> d_points, std::size_t parts,
               std::size_t parts_of_masses) {
    shape_ = shape;
    const StopTest stop(shape.stop);
    sweep_.rows = d_points.data();
    sweep_.n = shape.n;
    sweep_.d = static_cast<unsigned>(shape.d);
    sweep_.k = static_cast<unsigned>(shape.k);
    sweep_.fuzzifier = static_cast<T>(shape.fuzzifier);
    sweep_.wants_loss = stop.wants_loss();
    sweep_.wants_labels = stop.wants_labels_changed();
    parts_ = parts;
    parts_of_masses_ = parts_of_masses;
    d_sums_ = DeviceBuffer<T>(parts * shape.k * shape.d);
    d_masses_ = DeviceBuffer<T>(parts_of_masses * shape.k);
    d_found_ = DeviceBuffer<double>(parts_of_masses);
    d_facts_ = DeviceBuffer<double>(2);
    facts_ = PinnedBuffer<double>(2);
  }

  T* sums() { return d_sums_.data(); }        ///< [parts, k d]
  T* masses() { return d_masses_.data(); }    ///< [parts_of_masses, k]
  double* found() { return d_found_.data(); } ///< [parts_of_masses], see leave_found()

  /// launch(sweep) must fill these three. Writes all of the answer. Throws std::runtime_error.
  template <typename Launch>
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer, Launch launch) {
    const bool centres_first = shape_.starts_from_memberships;
    const bool counts = shape_.stop.kind == StopRule::Kind::iterations; // then the last is known
    StopTest stop(shape_.stop);
    FuzzySweep<T> sweep = sweep_;
    sweep.centres = answer.centroids.data();
    sweep.memberships = answer.memberships.data();
    sweep.vectors = shape_.k * sizeof(T) % sizeof(Vector<T>) == 0 &&
                    reinterpret_cast<std::uintptr_t>(sweep.memberships) % sizeof(Vector<T>) == 0;
    sweep.labels = answer.labels.data();
    fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    if (centres_first) {
      fill_bytes(answer.centroids, 0);
      sweep.given = start.memberships.data();
      launch(sweep);
      sweep.given = nullptr;
    } else {
      copy_values(start.centroids, answer.centroids.data());
    }
    const auto find_memberships = [&] {
      const Phase phase(observer, "memberships and sums", kDefaultStream);
      sweep.keep = !counts || stop.passes() + 1 == shape_.stop.max_iterations;
      launch(sweep);
    };
    PassFacts facts;
    do {
      if (centres_first) {
        move(answer, observer);
        find_memberships();
      } else {
        find_memberships();
        move(answer, observer);
      }
      observer.pass(answer.centroids);
      if (!counts) {
        facts = find_facts(answer);
        if (centres_first && stop.passes() == 0) { // there were no centres to move
          facts.squared_shift = std::numeric_limits<double>::infinity();
        }
      }
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

private:
  void move(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres", kDefaultStream);
    move_centres<<<blocks_for(shape_.k * shape_.d, 32), 1024>>>(
        d_sums_.data(), static_cast<unsigned>(parts_), d_masses_.data(),
        static_cast<unsigned>(parts_of_masses_), sweep_.d, sweep_.k, answer.centroids.data(),
        answer.entering.data());
    check_launch("move_centres");
  }

  PassFacts find_facts(const Answer<T>& answer) {
    const bool shift = shape_.stop.kind == StopRule::Kind::shift;
    collect_facts<<<1, 1024>>>(d_found_.data(), static_cast<unsigned>(parts_of_masses_),
                               answer.centroids.data(), answer.entering.data(),
                               shift ? sweep_.k * sweep_.d : 0, d_facts_.data());
    check_launch("collect_facts");
    d_facts_.download({facts_.data(), 2});
    return {facts_[0], facts_[0] > 0.0, facts_[1]};
  }

  Shape shape_;
  FuzzySweep<T> sweep_{};
  std::size_t parts_ = 0, parts_of_masses_ = 0;
  DeviceBuffer<T> d_sums_, d_masses_;
  DeviceBuffer<double> d_found_, d_facts_;
  PinnedBuffer<double> facts_;
};

} // namespace clusterbench::cuda

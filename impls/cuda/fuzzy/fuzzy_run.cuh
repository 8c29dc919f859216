// Fuzzy c-means in sweeps over the points, and a launch for the centres after each: the weights of
// a row from its distances, means from the sums of blocks, and the order of a run.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>

#include <cfloat>
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

/// a / b; kFast: of floats with two units in the last place of error, 0 for b beyond 2^126, and the
/// least normal number in place of a b that is below it or no number.
template <bool kFast>
__device__ float quotient(float a, float b) {
  if constexpr (kFast) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(max(b, FLT_MIN)));
    return a * inverse;
  } else {
    return a / b;
  }
}
template <bool kFast>
__device__ double quotient(double a, double b) {
  return a / b;
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

/// Turns the squared distances of one row into weights u^m. Lanes that share the row have K
/// clusters each, number m of them is cluster_of(m), and over(value, combine) combines over these
/// lanes. G of them at a time are neighbours, the first a multiple of G. Rows behind the last weigh
/// nothing, nor do clusters behind the last, whose distance must be infinite. Adds to `found` what
/// the stop rule wants, and writes memberships and label, where `writes`: one lane for each
/// cluster. kTwo: the fuzzifier m is 2.
template <bool kTwo, unsigned G, unsigned K, typename T, typename ClusterOf, typename Over>
__device__ void weigh_row_by(const FuzzySweep<T>& sweep, std::size_t row, bool writes,
                             ClusterOf cluster_of, Over over, T (&value)[K], double& found) {
  const bool real = row < sweep.n;
  const T m = sweep.fuzzifier;
  if (sweep.given != nullptr) {
#pragma unroll
    for (unsigned e = 0; e < K; ++e) {
      const T u =
          real && cluster_of(e) < sweep.k ? sweep.given[row * sweep.k + cluster_of(e)] : T{0};
      value[e] = kTwo ? u * u : pow(u, m);
    }
    return;
  }
  const auto add = [](T a, T b) { return a + b; };
  const auto smaller = [](T a, T b) { return min(a, b); };
  const auto larger = [](T a, T b) { return max(a, b); };
  T nearest = INFINITY;
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    nearest = min(nearest, value[e]);
  }
  nearest = over(nearest, smaller);
  // A membership is closeness over the sum of all, closeness = ratio^(1 / (m - 1)), so u^m is
  // closeness * ratio / sum^m. No ratio overflows; it is 1 for every centre that a point sits on.
  T ratio[K], close[K], total = 0;
  const T exponent = T{1} / (m - T{1});
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    const T below_one =
        quotient<kTwo>(nearest, value[e]); // or no number, of a centre at distance 0
    ratio[e] = value[e] == nearest ? T{1} : below_one;
    close[e] = kTwo ? ratio[e] : exp2(log2(ratio[e]) * exponent);
    total += close[e];
  }
  total = over(total, add);
  const T share = quotient<kTwo>(T{1}, total);
  const T scale = !real ? T{0} : kTwo ? share * share : exp2(-m * log2(total));
  if (sweep.wants_loss && writes && real) {
#pragma unroll
    for (unsigned e = 0; e < K; ++e) {
      if (cluster_of(e) < sweep.k) {
        found += static_cast<double>(close[e] * ratio[e] * scale) * static_cast<double>(value[e]);
      }
    }
  }
  if (sweep.keep) {
    T largest = 0;
#pragma unroll
    for (unsigned e = 0; e < K; ++e) {
      largest = max(largest, close[e] * share);
    }
    largest = over(largest, larger);
    unsigned label = sweep.k; // the lowest of equal ones
#pragma unroll
    for (unsigned e = 0; e < K; ++e) {
      label = close[e] * share == largest ? min(label, cluster_of(e)) : label;
    }
    label = over(label, [](unsigned a, unsigned b) { return min(a, b); });
#pragma unroll
    for (unsigned g = 0; g < K / G; ++g) {
      const unsigned j = cluster_of(g * G);
      if (writes && real && j < sweep.k) {
        Group<T, G> some;
#pragma unroll
        for (unsigned e = 0; e < G; ++e) {
          some.at[e] = close[g * G + e] * share;
        }
        write_memberships(sweep, row, j, some);
        if (label - j < G) { // among these, and not below them
          found += sweep.wants_labels && sweep.labels[row] != static_cast<std::int32_t>(label);
          sweep.labels[row] = static_cast<std::int32_t>(label);
        }
      }
    }
  }
#pragma unroll
  for (unsigned e = 0; e < K; ++e) {
    value[e] = close[e] * ratio[e] * scale;
  }
}

template <unsigned G, unsigned K, typename T, typename ClusterOf, typename Over>
__device__ void weigh_row(const FuzzySweep<T>& sweep, std::size_t row, bool writes,
                          ClusterOf cluster_of, Over over, T (&value)[K], double& found) {
  if (sweep.fuzzifier == T{2}) {
    weigh_row_by<true, G>(sweep, row, writes, cluster_of, over, value, found);
  } else {
    weigh_row_by<false, G>(sweep, row, writes, cluster_of, over, value, found);
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

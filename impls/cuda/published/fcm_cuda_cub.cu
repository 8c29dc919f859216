// Fuzzy c-means, a block per centre value and a block per sample, the objective reduced by CUB.
//
// Idea: a block per (feature, cluster) averages the samples; a block per sample measures its
//   distances, a warp per cluster, and turns them into memberships; CUB adds up the objective. The
//   order of a pass, the objective and the labels are in fcm_passes.cuh.
// Changed since fcm_serial: both halves of a pass run in parallel. The samples are kept a second
//   time, feature by feature, so that a centre's block reads neighbouring addresses: the article's
//   strided walk fetches 32 bytes for every float that it uses.
// Source: article 001, section 4. Corrected: all clusters get a thread, samples that coincide with
//   centres are shared among them, double computes in double, the objective pairs memberships with
//   the centres that they come from, powers are not the approximate __powf.
// Cost per iteration: 2 n k d values of samples and memberships read for the centres (n d + n k
//   from memory, the rest from L2), n (d + k) for the memberships; 5 n k d flops.
// Limits: k distances in shared memory (k <= 58112 floats on sm_90), else refused; 2 n d values of
//   device memory.
#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/published/fcm_passes.cuh"

#include <cub/block/block_reduce.cuh>

#include <algorithm>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;
constexpr std::size_t kRun = 1024; // samples a thread adds up before it adds to its total

// kTwo: the fuzzifier m is 2, whose powers are a square and the number itself.
template <bool kTwo, typename T>
__device__ T to_the_m(T membership, T m) {
  return kTwo ? membership * membership : pow(membership, m);
}

/// (nearest / squared)^(1 / (m - 1)), which cannot overflow; 1 for every centre a sample sits on.
template <bool kTwo, typename T>
__device__ T closeness(T nearest, T squared, T m) {
  const T ratio = squared == nearest ? T{1} : nearest / squared;
  return kTwo ? ratio : pow(ratio, 1 / (m - 1));
}

/// Combines the values of a warp's 32 threads; all of them get the result.
template <typename T, typename Combine>
__device__ T over_warp(T value, Combine combine) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

/// A block per entry of centres [k, d]; before: what they were, or null. features: [d, n],
/// memberships: [k, n]
template <bool kTwo, typename T>
__global__ void update_centres(const T* __restrict__ features, const T* __restrict__ memberships,
                               std::size_t n, std::size_t d, std::size_t k, T m, T* centres,
                               T* before, WantedFacts wanted, DeviceFacts* to_clear) {
  using BlockReduce = cub::BlockReduce<T, kThreads>;
  __shared__ typename BlockReduce::TempStorage s_sum, s_weight;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *to_clear = {};
  }
  for (std::size_t entry = blockIdx.x; entry < k * d; entry += gridDim.x) {
    const std::size_t j = entry % k; // the k blocks that share a feature run side by side
    const std::size_t f = entry / k;
    T sum = 0;
    T weight = 0;
    for (std::size_t first = 0; first < n; first += kRun * kThreads) {
      // Two levels of sums: millions of terms added one by one would lose a float's last digits.
      const std::size_t end = min(n, first + kRun * kThreads);
      T run_sum = 0;
      T run_weight = 0;
#pragma unroll 4
      for (std::size_t i = first + threadIdx.x; i < end; i += kThreads) {
        const T u_m = to_the_m<kTwo>(memberships[j * n + i], m);
        run_sum += u_m * features[f * n + i];
        run_weight += u_m;
      }
      sum += run_sum;
      weight += run_weight;
    }
    sum = BlockReduce(s_sum).Sum(sum);
    weight = BlockReduce(s_weight).Sum(weight);
    if (threadIdx.x == 0) {
      const T old = centres[j * d + f];
      const T mean = weight > 0 ? sum / weight : old; // a cluster without weight stays
      const double shift = static_cast<double>(mean) - static_cast<double>(old);
      if (wanted.squared_shift != nullptr) {
        atomicAdd(wanted.squared_shift, shift * shift);
      }
      centres[j * d + f] = mean;
      if (before != nullptr) {
        before[j * d + f] = old;
      }
    }
    __syncthreads(); // the next entry reuses the storage of the sums
  }
}

/// A block per sample. points: [n, d], centres: [k, d], memberships: [k, n]; contributions to the
/// objective: [n, k] or null. Dynamic shared memory: [k].
template <bool kTwo, typename T>
__global__ void update_memberships(const T* __restrict__ points, const T* __restrict__ centres,
                                   std::size_t n, unsigned d, unsigned k, T m, T* memberships,
                                   T* contributions) {
  extern __shared__ __align__(16) unsigned char s_bytes[];
  T* s_squared = reinterpret_cast<T*>(s_bytes);
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const auto add = [](T a, T b) { return a + b; };
  for (std::size_t i = blockIdx.x; i < n; i += gridDim.x) {
    const T* x = points + i * d;
    for (unsigned j = warp; j < k; j += blockDim.x / 32) {
      const T* c = centres + static_cast<std::size_t>(j) * d;
      T squared = 0;
#pragma unroll 4
      for (unsigned f = lane; f < d; f += 32) {
        const T difference = x[f] - c[f];
        squared += difference * difference;
      }
      squared = over_warp(squared, add);
      if (lane == 0) {
        s_squared[j] = squared;
      }
    }
    __syncthreads();     // every distance is there
    if (32 * warp < k) { // a warp without a membership to write need not add up the others'
      T nearest = INFINITY;
      for (unsigned j = lane; j < k; j += 32) {
        nearest = min(nearest, s_squared[j]);
      }
      nearest = over_warp(nearest, [](T a, T b) { return min(a, b); });
      T total = 0;
      for (unsigned j = lane; j < k; j += 32) {
        total += closeness<kTwo>(nearest, s_squared[j], m);
      }
      total = over_warp(total, add);
      for (unsigned j = threadIdx.x; j < k; j += blockDim.x) {
        const T membership = closeness<kTwo>(nearest, s_squared[j], m) / total;
        memberships[j * n + i] = membership;
        if (contributions != nullptr) {
          contributions[i * k + j] = to_the_m<kTwo>(membership, m) * s_squared[j];
        }
      }
    }
    __syncthreads(); // every distance has been used
  }
}

template <typename T>
class FcmCudaCub final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override { return refuse_fcm<T>(shape, 1); }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    passes_.prepare(shape, points.rows);
    const bool two = shape.fuzzifier == 2.0;
    update_centres_ = two ? update_centres<true, T> : update_centres<false, T>;
    update_memberships_ = two ? update_memberships<true, T> : update_memberships<false, T>;
    allow_shared_memory(update_memberships_, shape.k * sizeof(T));
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    passes_.run(
        start, answer, observer, [&](T* before) { launch_update_centres(before); },
        [&] { launch_update_memberships(); });
  }

private:
  T fuzzifier() const { return static_cast<T>(shape_.fuzzifier); }

  void launch_update_centres(T* before) {
    const unsigned blocks = blocks_at_most(shape_.k * shape_.d, 1, kMaxGridX);
    update_centres_<<<blocks, kThreads>>>(passes_.features(), passes_.memberships(), shape_.n,
                                          shape_.d, shape_.k, fuzzifier(), passes_.centres(),
                                          before, passes_.wanted(), passes_.to_clear());
    check_launch("update_centres");
  }

  void launch_update_memberships() {
    // As many warps as there are clusters, up to a full block: others would find nothing to do.
    const auto k = static_cast<unsigned>(shape_.k);
    const unsigned threads = 32 * std::min(k, kThreads / 32);
    const unsigned blocks = blocks_at_most(shape_.n, 1, kMaxGridX);
    update_memberships_<<<blocks, threads, k * sizeof(T)>>>(
        passes_.points(), passes_.centres(), shape_.n, static_cast<unsigned>(shape_.d), k,
        fuzzifier(), passes_.memberships(), passes_.contributions());
    check_launch("update_memberships");
  }

  Shape shape_;
  decltype(&update_centres<true, T>) update_centres_ = nullptr;
  decltype(&update_memberships<true, T>) update_memberships_ = nullptr;
  FcmPasses<T> passes_;
};

const Registration registration({.name = "fcm_cuda_cub",
                                 .idea = "a block per sample and per centre value; CUB reduction",
                                 .source = "article 001, section 4",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .previous = "fcm_serial"},
                                both_precisions<FcmCudaCub>());

} // namespace
} // namespace clusterbench

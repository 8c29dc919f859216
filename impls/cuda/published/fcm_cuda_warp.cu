// Fuzzy c-means for few features: a warp per sample, four samples a block.
//
// Idea: with d <= 64 features a block per sample has nothing to do for most of its threads; a warp
//   has, and it needs no barrier. Shuffles add up a distance, the lanes share the memberships. The
//   order of a pass, the objective and the labels are in fcm_passes.cuh.
// Changed since fcm_cuda_cub: that; and as d k blocks are too few for the centres when d is small,
//   the samples are cut into slices, which a second small kernel adds up in order.
// Source: article 001, section 4.5, the exercise: blocks of [32, 4] for at most 64 features.
// Cost per iteration: as fcm_cuda_cub: 2 n k d values read for the centres (n d + n k from memory),
//   n (d + k) for the memberships; 5 n k d flops. Below d = 32 a part of each warp idles.
// Limits: right for any d, meant for d <= 64; the distances of four samples in shared memory
//   (k <= 14528 floats on sm_90), else refused; 2 n d values of device memory.
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
constexpr unsigned kSamplesPerBlock = 4;  // a warp each
constexpr std::size_t kLongestRun = 1024; // samples that a thread adds up one by one

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

/// Block e of [slices, d, k] adds up a slice of the samples for one centre value. features: [d, n],
/// memberships: [k, n], sums and weights: [slices, d, k]
template <bool kTwo, typename T>
__global__ void sum_slices(const T* __restrict__ features, const T* __restrict__ memberships,
                           std::size_t n, std::size_t d, std::size_t k, std::size_t slices, T m,
                           T* sums, T* weights) {
  using BlockReduce = cub::BlockReduce<T, kThreads>;
  __shared__ typename BlockReduce::TempStorage s_sum, s_weight;
  for (std::size_t entry = blockIdx.x; entry < slices * k * d; entry += gridDim.x) {
    const std::size_t j = entry % k; // the k blocks that share a feature run side by side
    const std::size_t f = entry / k % d;
    const std::size_t slice = entry / (k * d);
    const std::size_t end = n * (slice + 1) / slices;
    T sum = 0;
    T weight = 0;
#pragma unroll 4
    for (std::size_t i = n * slice / slices + threadIdx.x; i < end; i += kThreads) {
      const T u_m = to_the_m<kTwo>(memberships[j * n + i], m);
      sum += u_m * features[f * n + i];
      weight += u_m;
    }
    sum = BlockReduce(s_sum).Sum(sum);
    weight = BlockReduce(s_weight).Sum(weight);
    if (threadIdx.x == 0) {
      sums[entry] = sum;
      weights[entry] = weight;
    }
    __syncthreads(); // the next entry reuses the storage of the sums
  }
}

/// A warp per entry of centres [k, d] adds up the slices; before: what they were, or null. sums and
/// weights: [slices, d, k]
template <typename T>
__global__ void update_centres(const T* __restrict__ sums, const T* __restrict__ weights,
                               std::size_t d, std::size_t k, std::size_t slices, T* centres,
                               T* before, WantedFacts wanted, DeviceFacts* to_clear) {
  const std::size_t entry = blockIdx.x;
  if (entry == 0 && threadIdx.x == 0) {
    *to_clear = {};
  }
  T sum = 0;
  T weight = 0;
  for (std::size_t slice = threadIdx.x; slice < slices; slice += 32) {
    sum += sums[slice * k * d + entry];
    weight += weights[slice * k * d + entry];
  }
  const auto add = [](T a, T b) { return a + b; };
  sum = over_warp(sum, add);
  weight = over_warp(weight, add);
  if (threadIdx.x == 0) {
    const std::size_t place = entry % k * d + entry / k;
    const T old = centres[place];
    const T mean = weight > 0 ? sum / weight : old; // a cluster without weight stays
    const double shift = static_cast<double>(mean) - static_cast<double>(old);
    if (wanted.squared_shift != nullptr) {
      atomicAdd(wanted.squared_shift, shift * shift);
    }
    centres[place] = mean;
    if (before != nullptr) {
      before[place] = old;
    }
  }
}

/// A warp per sample. points: [n, d], centres: [k, d], memberships: [k, n]; contributions to the
/// objective: [n, k] or null. block: (32, 4). Dynamic shared memory: [4, k].
template <bool kTwo, typename T>
__global__ void update_memberships(const T* __restrict__ points, const T* __restrict__ centres,
                                   std::size_t n, unsigned d, unsigned k, T m, T* memberships,
                                   T* contributions) {
  extern __shared__ __align__(16) unsigned char s_bytes[];
  T* s_squared = reinterpret_cast<T*>(s_bytes) + std::size_t{threadIdx.y} * k; // the warp's own
  const std::size_t i = std::size_t{blockIdx.x} * kSamplesPerBlock + threadIdx.y;
  if (i >= n) {
    return; // the whole warp: no barrier of the block follows
  }
  const unsigned lane = threadIdx.x;
  const T* x = points + i * d;
  const auto add = [](T a, T b) { return a + b; };
  for (unsigned j = 0; j < k; ++j) {
    const T* c = centres + static_cast<std::size_t>(j) * d;
    T squared = 0;
    for (unsigned f = lane; f < d; f += 32) {
      const T difference = x[f] - c[f];
      squared += difference * difference;
    }
    squared = over_warp(squared, add);
    if (lane == 0) {
      s_squared[j] = squared;
    }
  }
  __syncwarp(); // the distances that lane 0 wrote are read by all lanes
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
  for (unsigned j = lane; j < k; j += 32) {
    const T membership = closeness<kTwo>(nearest, s_squared[j], m) / total;
    memberships[j * n + i] = membership;
    if (contributions != nullptr) {
      contributions[i * k + j] = to_the_m<kTwo>(membership, m) * s_squared[j];
    }
  }
}

template <typename T>
class FcmCudaWarp final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return refuse_fcm<T>(shape, kSamplesPerBlock);
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    const std::size_t n = shape.n, values = shape.k * shape.d;
    passes_.prepare(shape, points.rows);
    const bool two = shape.fuzzifier == 2.0;
    sum_slices_ = two ? sum_slices<true, T> : sum_slices<false, T>;
    update_memberships_ = two ? update_memberships<true, T> : update_memberships<false, T>;
    allow_shared_memory(update_memberships_, kSamplesPerBlock * shape.k * sizeof(T));
    // Enough blocks to fill the device, and slices short enough that a float keeps its digits.
    const std::size_t longest = kThreads * kLongestRun;
    slices_ =
        std::max(ceil_div(resident_blocks(sum_slices_, kThreads, 0), values), ceil_div(n, longest));
    slices_ = std::min(slices_, ceil_div(n, kThreads));
    d_sums_ = DeviceBuffer<T>(slices_ * values);
    d_weights_ = DeviceBuffer<T>(slices_ * values);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    passes_.run(
        start, answer, observer, [&](T* before) { launch_update_centres(before); },
        [&] { launch_update_memberships(); });
  }

private:
  T fuzzifier() const { return static_cast<T>(shape_.fuzzifier); }

  void launch_update_centres(T* before) {
    sum_slices_<<<blocks_at_most(d_sums_.size(), 1, kMaxGridX), kThreads>>>(
        passes_.features(), passes_.memberships(), shape_.n, shape_.d, shape_.k, slices_,
        fuzzifier(), d_sums_.data(), d_weights_.data());
    check_launch("sum_slices");
    update_centres<<<blocks_for(shape_.k * shape_.d, 1), 32>>>(
        d_sums_.data(), d_weights_.data(), shape_.d, shape_.k, slices_, passes_.centres(), before,
        passes_.wanted(), passes_.to_clear());
    check_launch("update_centres");
  }

  void launch_update_memberships() {
    const auto d = static_cast<unsigned>(shape_.d), k = static_cast<unsigned>(shape_.k);
    update_memberships_<<<blocks_for(shape_.n, kSamplesPerBlock), dim3(32, kSamplesPerBlock),
                          kSamplesPerBlock * k * sizeof(T)>>>(
        passes_.points(), passes_.centres(), shape_.n, d, k, fuzzifier(), passes_.memberships(),
        passes_.contributions());
    check_launch("update_memberships");
  }

  Shape shape_;
  decltype(&sum_slices<true, T>) sum_slices_ = nullptr;
  decltype(&update_memberships<true, T>) update_memberships_ = nullptr;
  std::size_t slices_ = 0;
  FcmPasses<T> passes_;
  DeviceBuffer<T> d_sums_, d_weights_; // [slices, d, k]
};

const Registration registration({.name = "fcm_cuda_warp",
                                 .idea = "a warp per sample, four samples a block",
                                 .source = "article 001, section 4.5, the exercise",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .previous = "fcm_cuda_cub"},
                                both_precisions<FcmCudaWarp>());

} // namespace
} // namespace clusterbench

// Means over all blocks of a launch, without a barrier of the grid: every block leaves its sums in
// memory, each block adds up a share of them and publishes the means, all in words that carry the
// number of the pass. Always in the same order, so the same bits in every run.
//
// No word is written again before all have read it: a sum, by a block that has all means of its
// pass, which were made of it; a mean, by one that has the next sums of all blocks, who had read
// it; a fact, two passes later.
#pragma once

#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/stamped.cuh"
#include "impls/cuda/support/warp_sums.cuh"

#include <cuda_runtime.h>

#include <cstddef>

namespace clusterbench::cuda {

/// Words in device memory, of k clusters and `width` features. Stamps differ from all that will be
/// used.
struct GridMeansView {
  Stamped<float>* sums;   ///< [blocks, k, width + 1], the count behind the features
  Stamped<float>* means;  ///< [k, width]
  Stamped<double>* facts; ///< [2, blocks]
};

/// The memory behind it.
class GridMeansBuffers {
public:
  GridMeansBuffers() = default;
  /// Throws std::runtime_error.
  GridMeansBuffers(std::size_t k, std::size_t width, std::size_t blocks)
      : d_sums_(blocks * k * (width + 1)), d_means_(k * width), d_facts_(2 * blocks) {
    d_sums_.zero(); // stamps begin with 1
    d_means_.zero();
    d_facts_.zero();
  }
  GridMeansView view() { return {d_sums_.data(), d_means_.data(), d_facts_.data()}; }

private:
  DeviceBuffer<Stamped<float>> d_sums_, d_means_;
  DeviceBuffer<Stamped<double>> d_facts_;
};

/// All blocks must be resident (a cooperative launch) and take part in every pass.
template <unsigned kThreads>
class GridMeans {
public:
  static constexpr unsigned kWarps = kThreads / 32;
  static constexpr unsigned kScratchBytes = kThreads * sizeof(double2);
  static constexpr unsigned kLanes = kWarps <= 16 ? 16 : 32; ///< that add up what the warps have
  static_assert(kWarps <= kLanes);

  /// s_scratch: kScratchBytes, and no less than [k, width] floats; free during finish() and for
  /// mean().
  __device__ GridMeans(const GridMeansView& view, unsigned k, unsigned width, void* s_scratch)
      : view_(view), s_scratch_(static_cast<double2*>(s_scratch)), k_(k), width_(width) {}

  /// Begins a pass, with a stamp that no word has.
  __device__ void begin(unsigned stamp) { stamp_ = stamp; }
  /// Any thread: of this block's sums [k, width + 1], the count behind the features, number v.
  __device__ void set(unsigned v, float sum) const { publish(sum_of(blockIdx.x, v), sum, stamp_); }
  /// One thread a block.
  __device__ void set_fact(double fact) const { publish(fact_of(blockIdx.x), fact, stamp_); }

  /// All threads: makes mean_of(j, f, sum, size) of the sums over all blocks, and returns when
  /// those of all j and f are there.
  template <typename MeanOf>
  __device__ void finish(MeanOf mean_of) const {
    // Means that a block makes at a time: neighbours, which a warp reads as whole sectors.
    const unsigned wide = values() <= 8 * gridDim.x ? 8 : values() <= 16 * gridDim.x ? 16 : 32;
    for (unsigned first = blockIdx.x * wide; first < values(); first += gridDim.x * wide) {
      __syncthreads(); // the scratch is free
      add_up_blocks(first, wide);
      __syncthreads(); // those of all warps are there
      for (unsigned u = threadIdx.x; u < wide * kLanes; u += kThreads) {
        const unsigned of_warp = u % kLanes, at = first + u / kLanes;
        const double2 part =
            of_warp < kWarps ? s_scratch_[of_warp * wide + u / kLanes] : make_double2(0.0, 0.0);
        const double sum = over_lanes<kLanes>(part.x), size = over_lanes<kLanes>(part.y);
        if (of_warp == 0 && at < values()) {
          publish(view_.means + at, mean_of(at / width_, at % width_, sum, size), stamp_);
        }
      }
    }
    __syncthreads(); // the scratch is free
    float* s_means = reinterpret_cast<float*>(s_scratch_);
    constexpr unsigned kBatch = 4;
    for (unsigned first = threadIdx.x; first < values(); first += kBatch * kThreads) {
      float mean[kBatch];
      await(mean, [&](unsigned b) {
        const unsigned at = first + b * kThreads;
        return at < values() ? view_.means + at : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        if (first + b * kThreads < values()) {
          s_means[first + b * kThreads] = mean[b];
        }
      }
    }
    __syncthreads(); // all means are there
  }
  /// A mean of the pass that has ended.
  __device__ float mean(unsigned j, unsigned f) const {
    return reinterpret_cast<const float*>(s_scratch_)[j * width_ + f];
  }
  /// The sum of all facts. All threads; a barrier must come before the next time.
  __device__ double fact() const {
    return by_one_warp([&] { return sum_of_facts(); });
  }

private:
  __device__ unsigned values() const {
    return k_ * width_;
  }
  /// A whole warp; all lanes get it.
  __device__ double sum_of_facts() const {
    double sum = 0.0;
    constexpr unsigned kBatch = 5; // 132 blocks at once
    for (unsigned first = threadIdx.x % 32; first < gridDim.x; first += kBatch * 32) {
      double facts[kBatch];
      await(facts, [&](unsigned b) {
        const unsigned block = first + b * 32;
        return block < gridDim.x ? fact_of(block) : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        sum += facts[b];
      }
    }
    return over_lanes<32>(sum);
  }
  __device__ Stamped<float>* sum_of(unsigned block, unsigned v) const {
    return view_.sums + std::size_t{block} * k_ * (width_ + 1) + v;
  }
  __device__ Stamped<double>* fact_of(unsigned block) const { // two sets: some read, others go on
    return view_.facts + stamp_ % 2 * gridDim.x + block;
  }
  /// Waits for the words at place(0), ..., place(N - 1); zero where that is null. Their loads do
  /// not wait for one another.
  template <typename Value, unsigned N, typename Place>
  __device__ void await(Value (&value)[N], Place place) const {
    bool all = false;
    while (!all) {
      Stamped<Value> word[N];
#pragma unroll
      for (unsigned b = 0; b < N; ++b) {
        const Stamped<Value>* from = place(b);
        word[b] = from != nullptr ? look_at(from) : Stamped<Value>{Value{}, stamp_};
      }
      all = true;
#pragma unroll
      for (unsigned b = 0; b < N; ++b) {
        all = all && word[b].stamp == stamp_;
        value[b] = word[b].value;
      }
    }
  }
  /// Each warp's part of the sums and sizes of `wide` means.
  __device__ void add_up_blocks(unsigned first, unsigned wide) const {
    constexpr unsigned kBatch = 6; // blocks at once
    const unsigned lane = threadIdx.x % 32, slots = kThreads / wide;
    const unsigned e = min(first + lane % wide, values() - 1), j = e / width_;
    const unsigned place[2] = {e + j, j * (width_ + 1) + width_}; // of the sum and of the size
    double sum = 0.0, size = 0.0;
    for (unsigned block = threadIdx.x / wide; block < gridDim.x; block += kBatch * slots) {
      float parts[2 * kBatch];
      await(parts, [&](unsigned b) {
        const unsigned of = block + b / 2 * slots;
        return of < gridDim.x ? sum_of(of, place[b % 2]) : nullptr;
      });
#pragma unroll
      for (unsigned b = 0; b < kBatch; ++b) {
        sum += static_cast<double>(parts[2 * b]);
        size += static_cast<double>(parts[2 * b + 1]);
      }
    }
    for (unsigned offset = 16; offset >= wide; offset /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, static_cast<int>(offset));
      size += __shfl_xor_sync(kAllLanes, size, static_cast<int>(offset));
    }
    if (lane < wide) {
      s_scratch_[threadIdx.x / 32 * wide + lane] = make_double2(sum, size);
    }
  }

  GridMeansView view_;
  double2* s_scratch_;
  unsigned k_, width_, stamp_ = 0;
};

} // namespace clusterbench::cuda

// K-means with one thread a point and the centroids staged in shared memory.
//
// Changed since kmeans_cuda_atomic: each block first copies all centroids into its shared memory,
//   where its threads read them. Every thread needs every centroid, so k d global reads a thread
//   become k d / 512; faster as far as the L1 cache had not hidden that already. The atomics stay.
// Source: article 004, "CUDA (2)"; generalised to any d. The article's threads behind the end
//   return before the barrier, ours take part in the copy and in every barrier.
// Cost per iteration: as kmeans_cuda_atomic, plus k d values a block for the copy.
// Limits: k d values must fit the shared memory of a block (227 KiB on sm_90), else refused. Sums
//   have the data's precision and any order: see kmeans_cuda_atomic.
#include "impls/contract.hpp"
#include "impls/cuda/support/columns.cuh"
#include "impls/cuda/support/lloyd_passes.cuh"
#include "impls/cuda/support/pass_facts.cuh"
#include "impls/cuda/support/stream.hpp"

#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

// Large blocks: the copy of the centroids is paid once a block.
constexpr unsigned kThreads = 512;
constexpr unsigned kMeansThreads = 128;
// Distances that a thread holds in registers, so that it reads a feature once for eight clusters.
constexpr unsigned kTile = 8;

/// points: [d, n], centroids: [k, d], sums: [d, line_stride(k)], labels: [n], counts: [k]
template <typename T>
__global__ void assign_and_sum(const T* __restrict__ points, std::size_t n, std::size_t d,
                               const T* __restrict__ centroids, std::size_t k, std::int32_t* labels,
                               T* sums, unsigned* counts, WantedFacts wanted) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  T* staged = reinterpret_cast<T*>(shared_bytes); // [k, d]
  for (std::size_t e = threadIdx.x; e < k * d; e += blockDim.x) {
    staged[e] = centroids[e];
  }
  __syncthreads(); // all centroids are there before anyone reads one

  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  T smallest = INFINITY;
  bool changed = false;
  if (i < n) { // no early return: the facts below need every thread of the block
    std::size_t nearest = 0;
    for (std::size_t first = 0; first < k; first += kTile) {
      const T* row[kTile];
      T squared[kTile] = {};
#pragma unroll
      for (unsigned t = 0; t < kTile; ++t) {
        // Behind the end of k the last centroid is taken again: it never wins against itself.
        row[t] = staged + min(first + t, k - 1) * d;
      }
      for (std::size_t j = 0; j < d; ++j) {
        const T x = points[j * n + i];
#pragma unroll
        for (unsigned t = 0; t < kTile; ++t) {
          const T difference = x - row[t][j];
          squared[t] += difference * difference;
        }
      }
#pragma unroll
      for (unsigned t = 0; t < kTile; ++t) {
        if (squared[t] < smallest) { // strictly, so that ties go to the lowest index
          smallest = squared[t];
          nearest = min(first + t, k - 1);
        }
      }
    }
    for (std::size_t j = 0; j < d; ++j) {
      atomicAdd(&sums[j * line_stride(k) + nearest],
                points[j * n + i]); // any thread may add to any cluster
    }
    atomicAdd(&counts[nearest], 1u);
    const auto label = static_cast<std::int32_t>(nearest);
    changed = wanted.labels_changed != nullptr && labels[i] != label;
    labels[i] = label;
  }
  flag_block(changed, wanted.labels_changed);
  add_block(i < n ? static_cast<double>(sqrt(smallest)) : 0.0, wanted.loss);
}

/// Moves the centroid of cluster blockIdx.x to the mean of its points, and clears what it has used.
template <typename T>
__global__ void update_means(std::size_t k, std::size_t d, T* centroids, T* sums, unsigned* counts,
                             WantedFacts wanted, DeviceFacts* to_clear) {
  const std::size_t cluster = blockIdx.x;
  const unsigned count = counts[cluster];
  __syncthreads(); // every thread has the count before the first thread clears it
  double squared_shift = 0.0;
  for (std::size_t j = threadIdx.x; j < d && count > 0; j += blockDim.x) { // an empty one stays
    T& sum = sums[j * line_stride(k) + cluster];
    T& centroid = centroids[cluster * d + j];
    const T mean = sum / static_cast<T>(count);
    const double shift = static_cast<double>(mean) - static_cast<double>(centroid);
    squared_shift += shift * shift;
    centroid = mean;
    sum = 0;
  }
  if (threadIdx.x == 0) {
    counts[cluster] = 0;
    if (cluster == 0) {
      *to_clear = {};
    }
  }
  add_block(squared_shift, wanted.squared_shift);
}

template <typename T>
class KmeansCudaSharedMeans final : public Variant<T> {
public:
  std::string refuse(const Problem<T>& problem) const override {
    const std::size_t needed = staged_bytes(problem.k, problem.d);
    const std::size_t available = shared_memory_limit() - kFactsSharedBytes;
    if (needed > available) {
      return std::to_string(problem.k) + " x " + std::to_string(problem.d) + " centroids take " +
             std::to_string(needed) + " bytes of shared memory, a block has " +
             std::to_string(available);
    }
    return {};
  }

  void prepare(const Problem<T>& problem) override {
    n_ = problem.n, d_ = problem.d, k_ = problem.k;
    stream_ = Stream::create();
    d_points_ = upload_columns(problem.points, n_, d_, stream_);
    passes_.prepare(problem, stream_);
    d_sums_ = DeviceBuffer<T>(d_ * line_stride(k_));
    d_counts_ = DeviceBuffer<unsigned>(k_);
    allow_shared_memory(assign_and_sum<T>, staged_bytes(k_, d_));
  }

  void run(Observer<T>& observer) override {
    passes_.run(
        observer,
        [&] {
          d_sums_.zero(stream_);
          d_counts_.zero(stream_);
        },
        [&](PhaseTimer<T>& timer) { // until the stop rule is met
          timer.measure("assign and sum", [&] { launch_assign_and_sum(); });
          timer.measure("means", [&] { launch_update_means(); });
        });
  }

  void fetch(Result<T>& result) override { passes_.fetch(result); }

private:
  static std::size_t staged_bytes(std::size_t k, std::size_t d) { return k * d * sizeof(T); }

  void launch_assign_and_sum() {
    assign_and_sum<<<blocks_for(n_, kThreads), kThreads, staged_bytes(k_, d_), stream_>>>(
        d_points_.data(), n_, d_, passes_.centroids(), k_, passes_.labels(), d_sums_.data(),
        d_counts_.data(), passes_.wanted());
    check_launch("assign_and_sum");
  }

  void launch_update_means() {
    update_means<<<blocks_for(k_, 1), kMeansThreads, 0, stream_>>>(
        k_, d_, passes_.centroids(), d_sums_.data(), d_counts_.data(), passes_.wanted(),
        passes_.to_clear());
    check_launch("update_means");
  }

  std::size_t n_ = 0, d_ = 0, k_ = 0;
  Stream stream_;
  LloydPasses<T> passes_;
  DeviceBuffer<T> d_points_;        // [d, n]
  DeviceBuffer<T> d_sums_;          // [d, line_stride(k)]
  DeviceBuffer<unsigned> d_counts_; // [k]
};

const Registration registration({.name = "kmeans_cuda_shared_means",
                                 .idea = "centroids staged in shared memory",
                                 .source = "article 004, CUDA (2)",
                                 .device = Device::gpu,
                                 .deterministic = false,
                                 .previous = "kmeans_cuda_atomic"},
                                both_precisions<KmeansCudaSharedMeans>());

} // namespace
} // namespace clusterbench

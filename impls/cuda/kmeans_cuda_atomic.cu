// K-means with one thread a point and atomic sums: the simplest program for a GPU.
//
// Changed since kmeans_serial: the loop over points becomes the grid. Each thread finds the nearest
//   centroid of its point and adds the point to that cluster's sums with atomics; a second, small
//   kernel makes means of the sums. Points lie in columns, so a warp reads neighbouring addresses.
//   Faster by the number of threads, until the atomics on few addresses queue up.
// Source: article 004, "CUDA"; generalised to any d. Empty clusters keep their centroid, and the
//   means kernel clears the sums that it has used, which saves the article's three cudaMemset.
// Cost per iteration: ceil(k/8) n d values read for distances and n d for sums (repeats hit the
//   caches); 3 n k d + n d flops; n (d + 1) atomics, which are the limit where k is small.
// Limits: sums have the data's precision and any order, so runs differ in their last digits. A
//   float sum loses more where count * |mean| nears 2^24 times the spread of a cluster's points.
#include "impls/contract.hpp"
#include "impls/cuda/support/columns.cuh"
#include "impls/cuda/support/lloyd_passes.cuh"
#include "impls/cuda/support/pass_facts.cuh"
#include "impls/cuda/support/stream.hpp"

#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;
constexpr unsigned kMeansThreads = 128;
// Distances that a thread holds in registers, so that it reads a feature once for eight clusters.
constexpr unsigned kTile = 8;

/// points: [d, n], centroids: [k, d], sums: [d, line_stride(k)], labels: [n], counts: [k]
template <typename T>
__global__ void assign_and_sum(const T* __restrict__ points, std::size_t n, std::size_t d,
                               const T* __restrict__ centroids, std::size_t k, std::int32_t* labels,
                               T* sums, unsigned* counts, WantedFacts wanted) {
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
        row[t] = centroids + min(first + t, k - 1) * d;
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
class KmeansCudaAtomic final : public Variant<T> {
public:
  void prepare(const Problem<T>& problem) override {
    n_ = problem.n, d_ = problem.d, k_ = problem.k;
    stream_ = Stream::create();
    d_points_ = upload_columns(problem.points, n_, d_, stream_);
    passes_.prepare(problem, stream_);
    d_sums_ = DeviceBuffer<T>(d_ * line_stride(k_));
    d_counts_ = DeviceBuffer<unsigned>(k_);
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
  void launch_assign_and_sum() {
    assign_and_sum<<<blocks_for(n_, kThreads), kThreads, 0, stream_>>>(
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

const Registration registration({.name = "kmeans_cuda_atomic",
                                 .idea = "a thread a point, atomic sums",
                                 .source = "article 004, CUDA",
                                 .device = Device::gpu,
                                 .deterministic = false,
                                 .previous = "kmeans_serial"},
                                both_precisions<KmeansCudaAtomic>());

} // namespace
} // namespace clusterbench

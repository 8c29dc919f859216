// K-means with the sums of a block in shared memory.
//
// Changed since kmeans_cuda_soa: every block adds its points to k d sums and k counts of its own in
//   shared memory, then adds those to the global ones. The threads queue for atomics within a block
//   instead of within the whole device, and the global atomics fall from n (d + 1) to at most
//   k (d + 1) a block.
// Source: article 003, section 5, first optimisation; generalised to any d. The article lets one
//   thread a block pass the sums on, here all threads share that work.
// Cost per iteration: ceil(k/8) n d values read for distances and n d for sums (repeats hit the
//   caches); 3 n k d + n d flops; n (d + 1) atomics in shared memory.
// Limits: k d values and k counts must fit the shared memory of a block (227 KiB on sm_90), else
//   refused. Sums have the data's precision and any order, so runs differ in their last digits.
#include "impls/contract.hpp"
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/published/pass_facts.cuh"

#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;
constexpr unsigned kMeansThreads = 128;
// Distances that a thread holds in registers, so that it reads a feature once for eight clusters.
constexpr unsigned kTile = 8;

/// Labels every point by its nearest centroid. points: [d, n], centroids: [k, d], labels: [n]
template <typename T>
__global__ void assign_clusters(const T* __restrict__ points, std::size_t n, std::size_t d,
                                const T* __restrict__ centroids, std::size_t k,
                                std::int32_t* labels, WantedFacts wanted) {
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
    const auto label = static_cast<std::int32_t>(nearest);
    changed = wanted.labels_changed != nullptr && labels[i] != label;
    labels[i] = label;
  }
  flag_block(changed, wanted.labels_changed);
  add_block(i < n ? static_cast<double>(sqrt(smallest)) : 0.0, wanted.loss);
}

/// Adds every point to the sums of its block, and those to the sums of all.
/// points: [d, n], labels: [n], sums: [k, d], counts: [k]
template <typename T>
__global__ void sum_clusters(const T* __restrict__ points, std::size_t n, std::size_t d,
                             const std::int32_t* __restrict__ labels, std::size_t k, T* sums,
                             unsigned* counts) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  // [d, k]: the lanes of a warp differ in their clusters, and so use different banks.
  T* block_sums = reinterpret_cast<T*>(shared_bytes);
  auto* block_counts = reinterpret_cast<unsigned*>(block_sums + k * d); // [k]
  for (std::size_t e = threadIdx.x; e < k * d; e += blockDim.x) {
    block_sums[e] = 0;
    if (e < k) {
      block_counts[e] = 0;
    }
  }
  __syncthreads(); // all is clear before the first addition

  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    const auto cluster = static_cast<std::size_t>(labels[i]);
    for (std::size_t j = 0; j < d; ++j) {
      atomicAdd(&block_sums[j * k + cluster], points[j * n + i]); // threads share a cluster
    }
    atomicAdd(&block_counts[cluster], 1u);
  }
  __syncthreads(); // the sums of the block are complete before they are passed on

  // One atomic a block and entry, not one a point; none for a cluster without a point here.
  for (std::size_t e = threadIdx.x; e < k * d; e += blockDim.x) {
    if (const std::size_t cluster = e % k; block_counts[cluster] > 0) {
      atomicAdd(&sums[cluster * d + e / k], block_sums[e]);
      if (e < k) {
        atomicAdd(&counts[e], block_counts[e]);
      }
    }
  }
}

/// Moves the centroid of cluster blockIdx.x to the mean of its points. Keeps the one that entered
/// the pass, and clears what it has used.
template <typename T>
__global__ void calculate_means(std::size_t d, T* centroids, T* entering, T* sums, unsigned* counts,
                                WantedFacts wanted, DeviceFacts* to_clear) {
  const std::size_t cluster = blockIdx.x;
  const unsigned count = counts[cluster];
  __syncthreads(); // every thread has the count before the first thread clears it
  double squared_shift = 0.0;
  for (std::size_t e = cluster * d + threadIdx.x; e < (cluster + 1) * d; e += blockDim.x) {
    const T before = centroids[e];
    entering[e] = before;
    if (count > 0) { // an empty cluster stays where it is
      const T mean = sums[e] / static_cast<T>(count);
      const double shift = static_cast<double>(mean) - static_cast<double>(before);
      squared_shift += shift * shift;
      centroids[e] = mean;
      sums[e] = 0;
    }
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
class KmeansCudaBlockSums final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::size_t needed = block_sums_bytes(shape);
    if (needed > shared_memory_limit()) {
      return "sums of " + std::to_string(shape.k) + " x " + std::to_string(shape.d) +
             " and counts take " + std::to_string(needed) +
             " bytes of shared memory, a block has " + std::to_string(shared_memory_limit());
    }
    return {};
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    d_points_ = make_columns(points.rows, shape.n, shape.d);
    d_sums_ = DeviceBuffer<T>(shape.k * shape.d);
    d_counts_ = DeviceBuffer<unsigned>(shape.k);
    facts_ = FactsBuffer::create();
    // As many blocks as run at once: more would only add to the global atomics at their ends.
    const std::size_t bytes = block_sums_bytes(shape);
    allow_shared_memory(sum_clusters<T>, bytes);
    sum_blocks_ =
        blocks_at_most(shape.n, kThreads, resident_blocks(sum_clusters<T>, kThreads, bytes));
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    StopTest stop(shape_.stop);
    facts_.start(stop);
    d_sums_.zero();
    d_counts_.zero();
    copy_values(start.centroids, answer.centroids.data());
    fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    do {
      launch_assign_clusters(answer, observer);
      launch_sum_clusters(answer, observer);
      launch_calculate_means(answer, observer);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts_.finish_pass()));
    answer.iterations = stop.passes();
  }

private:
  static std::size_t block_sums_bytes(const Shape& shape) {
    return shape.k * shape.d * sizeof(T) + shape.k * sizeof(unsigned);
  }

  void launch_assign_clusters(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "assign", cudaStreamLegacy);
    assign_clusters<<<blocks_for(shape_.n, kThreads), kThreads>>>(
        d_points_.data(), shape_.n, shape_.d, answer.centroids.data(), shape_.k,
        answer.labels.data(), facts_.wanted());
    check_launch("assign_clusters");
  }

  void launch_sum_clusters(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "sum", cudaStreamLegacy);
    sum_clusters<<<sum_blocks_, kThreads, block_sums_bytes(shape_)>>>(
        d_points_.data(), shape_.n, shape_.d, answer.labels.data(), shape_.k, d_sums_.data(),
        d_counts_.data());
    check_launch("sum_clusters");
  }

  void launch_calculate_means(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "means", cudaStreamLegacy);
    calculate_means<<<blocks_for(shape_.k, 1), kMeansThreads>>>(
        shape_.d, answer.centroids.data(), answer.entering.data(), d_sums_.data(), d_counts_.data(),
        facts_.wanted(), facts_.to_clear());
    check_launch("calculate_means");
  }

  Shape shape_;
  unsigned sum_blocks_ = 0;
  DeviceBuffer<T> d_points_;        // [d, n]
  DeviceBuffer<T> d_sums_;          // [k, d]
  DeviceBuffer<unsigned> d_counts_; // [k]
  FactsBuffer facts_;
};

const Registration registration({.name = "kmeans_cuda_block_sums",
                                 .idea = "sums of a block in shared memory",
                                 .source = "article 003, section 5 (1)",
                                 .device = Device::gpu,
                                 .deterministic = false,
                                 .previous = "kmeans_cuda_soa"},
                                both_precisions<KmeansCudaBlockSums>());

} // namespace
} // namespace clusterbench

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
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/published/pass_facts.cuh"

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

/// Moves the centroid of cluster blockIdx.x to the mean of its points. Keeps the one that entered
/// the pass, and clears what it has used.
template <typename T>
__global__ void update_means(std::size_t k, std::size_t d, T* centroids, T* entering, T* sums,
                             unsigned* counts, WantedFacts wanted, DeviceFacts* to_clear) {
  const std::size_t cluster = blockIdx.x;
  const unsigned count = counts[cluster];
  __syncthreads(); // every thread has the count before the first thread clears it
  double squared_shift = 0.0;
  for (std::size_t j = threadIdx.x; j < d; j += blockDim.x) {
    const std::size_t e = cluster * d + j;
    const T before = centroids[e];
    entering[e] = before;
    if (count > 0) { // an empty cluster stays where it is
      T& sum = sums[j * line_stride(k) + cluster];
      const T mean = sum / static_cast<T>(count);
      const double shift = static_cast<double>(mean) - static_cast<double>(before);
      squared_shift += shift * shift;
      centroids[e] = mean;
      sum = 0;
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
class KmeansCudaSharedMeans final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::size_t needed = staged_bytes(shape);
    const std::size_t available = shared_memory_limit() - kFactsSharedBytes;
    if (needed > available) {
      return std::to_string(shape.k) + " x " + std::to_string(shape.d) + " centroids take " +
             std::to_string(needed) + " bytes of shared memory, a block has " +
             std::to_string(available);
    }
    return {};
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    d_points_ = make_columns(points.rows, shape.n, shape.d);
    d_sums_ = DeviceBuffer<T>(shape.d * line_stride(shape.k));
    d_counts_ = DeviceBuffer<unsigned>(shape.k);
    facts_ = FactsBuffer::create();
    allow_shared_memory(assign_and_sum<T>, staged_bytes(shape));
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    StopTest stop(shape_.stop);
    facts_.start(stop);
    d_sums_.zero();
    d_counts_.zero();
    copy_values(start.centroids, answer.centroids.data());
    fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    do {
      launch_assign_and_sum(answer, observer);
      launch_update_means(answer, observer);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts_.finish_pass()));
    answer.iterations = stop.passes();
  }

private:
  static std::size_t staged_bytes(const Shape& shape) { return shape.k * shape.d * sizeof(T); }

  void launch_assign_and_sum(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "assign and sum", cudaStreamLegacy);
    assign_and_sum<<<blocks_for(shape_.n, kThreads), kThreads, staged_bytes(shape_)>>>(
        d_points_.data(), shape_.n, shape_.d, answer.centroids.data(), shape_.k,
        answer.labels.data(), d_sums_.data(), d_counts_.data(), facts_.wanted());
    check_launch("assign_and_sum");
  }

  void launch_update_means(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "means", cudaStreamLegacy);
    update_means<<<blocks_for(shape_.k, 1), kMeansThreads>>>(
        shape_.k, shape_.d, answer.centroids.data(), answer.entering.data(), d_sums_.data(),
        d_counts_.data(), facts_.wanted(), facts_.to_clear());
    check_launch("update_means");
  }

  Shape shape_;
  DeviceBuffer<T> d_points_;        // [d, n]
  DeviceBuffer<T> d_sums_;          // [d, line_stride(k)]
  DeviceBuffer<unsigned> d_counts_; // [k]
  FactsBuffer facts_;
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

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
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/published/pass_facts.cuh"

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
class KmeansCudaAtomic final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    d_points_ = make_columns(points.rows, shape.n, shape.d);
    d_sums_ = DeviceBuffer<T>(shape.d * line_stride(shape.k));
    d_counts_ = DeviceBuffer<unsigned>(shape.k);
    facts_ = FactsBuffer::create();
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
  void launch_assign_and_sum(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "assign and sum", cudaStreamLegacy);
    assign_and_sum<<<blocks_for(shape_.n, kThreads), kThreads>>>(
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

const Registration registration({.name = "kmeans_cuda_atomic",
                                 .idea = "a thread a point, atomic sums",
                                 .source = "article 004, CUDA",
                                 .device = Device::gpu,
                                 .deterministic = false,
                                 .previous = "kmeans_serial"},
                                both_precisions<KmeansCudaAtomic>());

} // namespace
} // namespace clusterbench

// K-means with a block of threads a sample and a launch a centroid.
//
// Changed since kmeans_serial_distances: the threads of a block share the features of one sample,
//   and the launches for different centroids run on streams side by side. Then a thread a sample
//   takes the minimum, the loss is reduced, clusters are counted, and a block a sample adds its
//   share to its centroid with atomics. Faster by the number of threads.
// Source: article 000, section 4. There: at most 20 clusters and 128 features, streams made anew in
//   every pass, a float loss in two launches, x / count added to cleared centroids. Here: any k on
//   at most 8 streams, any d by striding, squared distances in columns, the loss summed in double
//   with the minimum, x / count added up apart, in copies; empty clusters keep their centroid.
// Cost per iteration: (k + 1) n d values read, n k distances written and read; 3 n k d + 2 n d
//   flops; n (d + 1) atomics. Blocks started, (k + 1) n, are the limit for small d.
// Limits: n k distances must fit device memory. Sums have the data's precision and any order.
#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/published/pass_facts.cuh"

#include <cuda_runtime.h>

#include <memory>
#include <type_traits>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxBlock = 128; // threads for one sample, the article's number
constexpr unsigned kThreads = 256;  // where a thread takes a sample
constexpr std::size_t kMaxStreams = 8;
// Distances to one centroid start on a line of their own, so that launches side by side share none.
constexpr std::size_t kLine = 32;
// Copies of the means that samples are dealt to. In one copy, tiny shares x / count are added to a
// float near its final size and lose digits, the same way wherever many points have one value; and
// the fewer samples add to an address, the less they wait.
constexpr std::size_t kCopies = 32;

/// Squared distances of all points to one centroid. points: [n, d], centroid: [d], squared: [n]
template <typename T>
__global__ void squared_distances(const T* __restrict__ points, std::size_t n, std::size_t d,
                                  const T* __restrict__ centroid, T* squared) {
  __shared__ T warp_sums[kMaxBlock / 32];
  for (std::size_t i = blockIdx.x; i < n; i += gridDim.x) { // one round but for the largest n
    T sum = 0;
    for (std::size_t j = threadIdx.x; j < d; j += blockDim.x) {
      const T difference = points[i * d + j] - centroid[j];
      sum += difference * difference;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_down_sync(0xffffffffu, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
      warp_sums[threadIdx.x / 32] = sum;
    }
    __syncthreads(); // all warps have written before the first thread reads
    if (threadIdx.x == 0) {
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
        sum += warp_sums[warp];
      }
      squared[i] = sum;
    }
    __syncthreads(); // the first thread has read before the next sample's sums are written
  }
}

/// Labels every point by the smallest of its distances, adds those up, and clears the counts for
/// the next kernel. squared: [k, pitch], labels: [n], counts: [k]
template <typename T>
__global__ void take_minimum(const T* __restrict__ squared, std::size_t n, std::size_t pitch,
                             std::size_t k, std::int32_t* labels, unsigned* counts,
                             WantedFacts wanted) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::size_t c = i; c < k; c += std::size_t{gridDim.x} * blockDim.x) {
    counts[c] = 0;
  }
  bool changed = false;
  T smallest = 0;
  if (i < n) { // no early return: the facts below need every thread of the block
    std::int32_t nearest = 0;
    smallest = squared[i];
    for (std::size_t c = 1; c < k; ++c) {
      if (const T other = squared[c * pitch + i]; other < smallest) { // ties go to the lowest index
        smallest = other;
        nearest = static_cast<std::int32_t>(c);
      }
    }
    changed = wanted.labels_changed != nullptr && labels[i] != nearest;
    labels[i] = nearest;
  }
  flag_block(changed, wanted.labels_changed);
  add_block(static_cast<double>(sqrt(smallest)), wanted.loss);
}

__global__ void count_clusters(const std::int32_t* __restrict__ labels, std::size_t n,
                               unsigned* counts) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&counts[labels[i]], 1u);
  }
}

/// A block a sample: adds the sample's share to the new centroid of its cluster.
/// points: [n, d], labels: [n], counts: [k], means: [kCopies, k, d]
template <typename T>
__global__ void sum_means(const T* __restrict__ points, std::size_t n, std::size_t d,
                          const std::int32_t* __restrict__ labels,
                          const unsigned* __restrict__ counts, std::size_t k, T* means) {
  for (std::size_t i = blockIdx.x; i < n; i += gridDim.x) {
    const auto cluster = static_cast<std::size_t>(labels[i]);
    const T count = static_cast<T>(counts[cluster]);
    T* copy = means + i % kCopies * k * d;
    for (std::size_t j = threadIdx.x; j < d; j += blockDim.x) {
      atomicAdd(&copy[cluster * d + j], points[i * d + j] / count); // blocks share clusters
    }
  }
}

/// Adds up the copies of the means, makes the sums the centroids, and clears the copies.
/// centroids and entering (as they were): [k, d], means: [kCopies, k, d], counts: [k]
template <typename T>
__global__ void take_means(std::size_t k, std::size_t d, const unsigned* __restrict__ counts,
                           T* means, T* centroids, T* entering, WantedFacts wanted,
                           DeviceFacts* to_clear) {
  const std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  double shift = 0.0;
  if (e < k * d) {
    const T before = centroids[e];
    entering[e] = before;
    if (counts[e / d] > 0) { // an empty cluster stays where it is
      T mean = 0;
      for (std::size_t copy = 0; copy < kCopies; ++copy) {
        mean += means[copy * k * d + e];
        means[copy * k * d + e] = 0;
      }
      shift = static_cast<double>(mean) - static_cast<double>(before);
      centroids[e] = mean;
    }
  }
  if (e == 0) {
    *to_clear = {};
  }
  add_block(shift * shift, wanted.squared_shift); // so no thread may have returned above
}

template <typename T>
class KmeansCudaBlockPerSample final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows.data();
    block_ = static_cast<unsigned>(std::min<std::size_t>(kMaxBlock, ceil_div(shape.d, 32) * 32));
    streams_.clear();
    for (std::size_t s = 0; s < std::min(shape.k, kMaxStreams); ++s) {
      // Of the kind that waits for what the default stream was given before, and that for it.
      streams_.push_back(Stream::create(cudaStreamDefault));
    }
    pitch_ = ceil_div(shape.n, kLine) * kLine;
    d_squared_ = DeviceBuffer<T>(shape.k * pitch_);
    d_means_ = DeviceBuffer<T>(kCopies * shape.k * shape.d);
    d_counts_ = DeviceBuffer<unsigned>(shape.k);
    facts_ = FactsBuffer::create();
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    StopTest stop(shape_.stop);
    facts_.start(stop);
    d_means_.zero();
    copy_values(start.centroids, answer.centroids.data());
    fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    do {
      launch_distances(answer, observer);
      launch_minimum(answer, observer);
      launch_update(answer, observer);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts_.finish_pass()));
    answer.iterations = stop.passes();
  }

private:
  /// One launch a centroid, dealt to the streams.
  void launch_distances(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "distances", cudaStreamLegacy);
    for (std::size_t c = 0; c < shape_.k; ++c) {
      squared_distances<<<blocks_at_most(shape_.n, 1, kMaxGridX), block_, 0,
                          streams_[c % streams_.size()]>>>(points_, shape_.n, shape_.d,
                                                           answer.centroids.data() + c * shape_.d,
                                                           d_squared_.data() + c * pitch_);
      check_launch("squared_distances");
    }
  }

  void launch_minimum(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "minimum", cudaStreamLegacy);
    take_minimum<<<blocks_for(shape_.n, kThreads), kThreads>>>(d_squared_.data(), shape_.n, pitch_,
                                                               shape_.k, answer.labels.data(),
                                                               d_counts_.data(), facts_.wanted());
    check_launch("take_minimum");
  }

  void launch_update(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "update", cudaStreamLegacy);
    count_clusters<<<blocks_for(shape_.n, kThreads), kThreads>>>(answer.labels.data(), shape_.n,
                                                                 d_counts_.data());
    check_launch("count_clusters");
    sum_means<<<blocks_at_most(shape_.n, 1, kMaxGridX), block_>>>(
        points_, shape_.n, shape_.d, answer.labels.data(), d_counts_.data(), shape_.k,
        d_means_.data());
    check_launch("sum_means");
    take_means<<<blocks_for(shape_.k * shape_.d, kThreads), kThreads>>>(
        shape_.k, shape_.d, d_counts_.data(), d_means_.data(), answer.centroids.data(),
        answer.entering.data(), facts_.wanted(), facts_.to_clear());
    check_launch("take_means");
  }

  Shape shape_;
  const T* points_ = nullptr; // [n, d]
  std::size_t pitch_ = 0;     // distances from one centroid's first to the next one's
  unsigned block_ = 0;        // threads for one sample
  std::vector<Stream> streams_;
  DeviceBuffer<T> d_squared_;       // [k, pitch_]
  DeviceBuffer<T> d_means_;         // [kCopies, k, d]
  DeviceBuffer<unsigned> d_counts_; // [k]
  FactsBuffer facts_;
};

const Registration registration({.name = "kmeans_cuda_block_per_sample",
                                 .idea = "a block a sample, a launch a centroid on streams",
                                 .source = "article 000, section 4",
                                 .device = Device::gpu,
                                 .deterministic = false,
                                 .previous = "kmeans_serial_distances"},
                                both_precisions<KmeansCudaBlockPerSample>());

} // namespace
} // namespace clusterbench

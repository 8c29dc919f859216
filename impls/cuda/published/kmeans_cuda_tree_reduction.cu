// K-means whose sums come from two tree reductions, without any atomic sum.
//
// Changed since kmeans_cuda_shared_means: for each cluster the threads of a block write their
//   point, or zero, into shared memory and add it up in a tree of log2(256) levels, count included;
//   a second kernel adds up the blocks. Nobody queues for an address, and the order of all sums is
//   fixed, so every run gives the same bits. Faster while k is small: a tree a cluster is built.
// Source: article 004, "CUDA (3)", whose program is wrong (it takes the first block's sums for
//   those of all, and fails for many blocks). Right here for any n, k, d: at most 1024 blocks
//   stride over the points, all threads reach every barrier; a tree ends in a warp's shuffles.
// Cost per iteration: ceil(k/8) n d values read for distances, n d for sums and k n ceil((d+1)/4)
//   labels (repeats hit the caches); 3 n k d + n d flops; 2 k (d + 1) partial sums a block.
// Limits: the partial sums take up to 1024 k (d + 1) values of device memory.
#include "impls/contract.hpp"
#include "impls/cuda/common/columns.cuh"
#include "impls/cuda/published/pass_facts.cuh"

#include <cmath>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;
// Blocks of the first reduction: a constant, so that the order of the sums depends on no device.
constexpr std::size_t kMaxBlocks = 1024;
// Distances that a thread holds in registers, so that it reads a feature once for eight clusters.
constexpr unsigned kTile = 8;
// Sums that share one tree and its barriers: the article's x, y and count, and one more.
constexpr unsigned kSums = 4;

/// Adds up each of the `kWidth` values over the block; the totals are left in thread 0's `values`.
/// All threads of the block must call it.
template <unsigned kWidth, typename T>
__device__ void tree_sum(T (&tree)[kWidth][kThreads], T (&values)[kWidth]) {
  const unsigned t = threadIdx.x;
  for (unsigned w = 0; w < kWidth; ++w) {
    tree[w][t] = values[w];
  }
  __syncthreads(); // all leaves are written
  for (unsigned half = kThreads / 2; half >= 32; half /= 2) {
    for (unsigned w = 0; w < kWidth && t < half; ++w) {
      tree[w][t] += tree[w][t + half];
    }
    __syncthreads(); // this level is complete before the next one reads it
  }
  // What is left belongs to the first warp alone: it may go on without barriers, and the others
  // may write their leaves of the next tree, which this warp does not read any more.
  for (unsigned w = 0; w < kWidth && t < 32; ++w) {
    values[w] = tree[w][t];
    for (int offset = 16; offset > 0; offset /= 2) {
      values[w] += __shfl_down_sync(0xffffffffu, values[w], offset);
    }
  }
}

/// Labels the points of a block and reduces them to k (d + 1) sums: features, then the count.
/// points: [d, n], centroids: [k, d], labels: [n], partial: [k, d + 1, blocks], losses: [blocks]
template <typename T>
__global__ void fine_reduce(const T* __restrict__ points, std::size_t n, std::size_t d,
                            const T* __restrict__ centroids, std::size_t k, std::int32_t* labels,
                            T* partial, double* losses, WantedFacts wanted) {
  __shared__ T tree[kSums][kThreads];
  __shared__ double loss_tree[1][kThreads];
  const std::size_t start = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;

  bool changed = false;
  double loss[1] = {};
  for (std::size_t i = start; i < n; i += stride) {
    T smallest = INFINITY;
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
    changed |= wanted.labels_changed != nullptr && labels[i] != label;
    labels[i] = label;
    loss[0] += static_cast<double>(sqrt(smallest));
  }
  flag_block(changed, wanted.labels_changed);
  if (wanted.loss != nullptr) {
    tree_sum(loss_tree, loss);
    if (threadIdx.x == 0) {
      losses[blockIdx.x] = loss[0];
    }
  }

  for (std::size_t cluster = 0; cluster < k; ++cluster) {
    for (std::size_t first = 0; first <= d; first += kSums) {
      T sums[kSums] = {};
      for (std::size_t i = start; i < n; i += stride) {
        if (static_cast<std::size_t>(labels[i]) == cluster) { // others add zero
          for (unsigned s = 0; s < kSums && first + s <= d; ++s) {
            sums[s] += first + s < d ? points[(first + s) * n + i] : T{1};
          }
        }
      }
      tree_sum(tree, sums);
      for (unsigned s = 0; s < kSums && first + s <= d && threadIdx.x == 0; ++s) {
        partial[(cluster * (d + 1) + first + s) * gridDim.x + blockIdx.x] = sums[s];
      }
    }
  }
}

/// A block a centroid entry: adds up the blocks' sums and counts, and makes the mean.
/// partial: [k, d + 1, blocks], centroids, entering (as they were) and shifts: [k, d]
template <typename T>
__global__ void coarse_reduce(const T* __restrict__ partial, std::size_t blocks, std::size_t d,
                              T* centroids, T* entering, double* shifts, DeviceFacts* to_clear) {
  __shared__ double tree[2][kThreads];
  const std::size_t entry = blockIdx.x;
  const std::size_t cluster = entry / d;
  double sum_and_count[2] = {};
  for (std::size_t b = threadIdx.x; b < blocks; b += kThreads) {
    sum_and_count[0] += static_cast<double>(partial[(cluster * (d + 1) + entry % d) * blocks + b]);
    sum_and_count[1] += static_cast<double>(partial[(cluster * (d + 1) + d) * blocks + b]);
  }
  tree_sum(tree, sum_and_count);
  if (threadIdx.x == 0) {
    const T before = centroids[entry];
    entering[entry] = before;
    shifts[entry] = 0.0;
    if (sum_and_count[1] > 0.0) { // an empty cluster stays where it is
      const T mean = static_cast<T>(sum_and_count[0] / sum_and_count[1]);
      const double shift = static_cast<double>(mean) - static_cast<double>(before);
      shifts[entry] = shift * shift;
      centroids[entry] = mean;
    }
    if (entry == 0) {
      *to_clear = {};
    }
  }
}

/// One block: adds up `values` in a fixed order.
__global__ void total_reduce(const double* __restrict__ values, std::size_t count, double* total) {
  __shared__ double tree[1][kThreads];
  double sum[1] = {};
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) {
    sum[0] += values[i];
  }
  tree_sum(tree, sum);
  if (threadIdx.x == 0) {
    *total = sum[0];
  }
}

template <typename T>
class KmeansCudaTreeReduction final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    blocks_ = blocks_at_most(shape.n, kThreads, kMaxBlocks);
    d_points_ = make_columns(points.rows, shape.n, shape.d);
    d_partial_ = DeviceBuffer<T>(shape.k * (shape.d + 1) * blocks_);
    d_losses_ = DeviceBuffer<double>(blocks_);
    d_shifts_ = DeviceBuffer<double>(shape.k * shape.d);
    facts_ = FactsBuffer::create();
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    StopTest stop(shape_.stop);
    facts_.start(stop);
    copy_values(start.centroids, answer.centroids.data());
    fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    do {
      launch_fine(answer, observer);
      launch_coarse(answer, observer);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts_.finish_pass()));
    answer.iterations = stop.passes();
  }

private:
  void launch_fine(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "assign and reduce blocks", cudaStreamLegacy);
    fine_reduce<<<blocks_, kThreads>>>(d_points_.data(), shape_.n, shape_.d,
                                       answer.centroids.data(), shape_.k, answer.labels.data(),
                                       d_partial_.data(), d_losses_.data(), facts_.wanted());
    check_launch("fine_reduce");
    launch_total(d_losses_, facts_.wanted().loss);
  }

  void launch_coarse(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "reduce to means", cudaStreamLegacy);
    coarse_reduce<<<blocks_for(shape_.k * shape_.d, 1), kThreads>>>(
        d_partial_.data(), blocks_, shape_.d, answer.centroids.data(), answer.entering.data(),
        d_shifts_.data(), facts_.to_clear());
    check_launch("coarse_reduce");
    launch_total(d_shifts_, facts_.wanted().squared_shift);
  }

  void launch_total(const DeviceBuffer<double>& values, double* total) {
    if (total != nullptr) {
      total_reduce<<<1, kThreads>>>(values.data(), values.size(), total);
      check_launch("total_reduce");
    }
  }

  Shape shape_;
  unsigned blocks_ = 0;                      // of the first reduction
  DeviceBuffer<T> d_points_;                 // [d, n]
  DeviceBuffer<T> d_partial_;                // [k, d + 1, blocks]
  DeviceBuffer<double> d_losses_, d_shifts_; // [blocks], [k, d]
  FactsBuffer facts_;
};

const Registration registration({.name = "kmeans_cuda_tree_reduction",
                                 .idea = "a tree a block and cluster, then a tree of blocks",
                                 .source = "article 004, CUDA (3)",
                                 .device = Device::gpu,
                                 .previous = "kmeans_cuda_shared_means"},
                                both_precisions<KmeansCudaTreeReduction>());

} // namespace
} // namespace clusterbench

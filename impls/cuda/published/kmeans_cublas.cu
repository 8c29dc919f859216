// K-means whose distances are a matrix product: |x - c|^2 = |x|^2 - 2 x.c + |c|^2, by cuBLAS.
//
// Idea: |x|^2 is the same for all centroids, so the nearest one has the least |c|^2 - 2 x.c; the
//   products of all points with all centroids are one GEMM, the best tuned program of any GPU.
// Changed since kmeans_cuda_block_sums: the GEMM holds tiles of points and centroids in registers,
//   and so reads each value far less often than a thread a point does. It pays for large k and d.
//   Points come in chunks whose products are still in the L2 cache when the argmin reads them.
// Source: the expansion of article 004's Eigen programs; the step towards tensor cores.
// Precision: CUBLAS_COMPUTE_32F_PEDANTIC or _64F_PEDANTIC: neither TF32 nor emulation, whatever
//   the environment asks for. The expansion cancels for data far from the origin.
// Cost per iteration: 2 n d values read, n k written and read; 2 n k d + n d flops.
// Limits: atomic sums, in an order that differs from run to run; in shared memory if k (d + 1)
//   values fit 48 KiB, else in global memory.
#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/published/pass_facts.cuh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cublas_v2.h>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;
constexpr std::size_t kProductBytes = std::size_t{24} << 20; // stays in an L2 of 40 MiB if k >= d
constexpr std::size_t kSharedBytes = 48 * 1024; // several blocks must fit a multiprocessor

/// Throws std::runtime_error with file, line, the call and the status' name unless all is well.
void check_cublas(cublasStatus_t status, std::string_view call,
                  std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                             ": " + std::string(call) + " failed: " + cublasGetStatusName(status));
  }
}

/// norms[j] = |c_j|^2, a warp per centroid. centroids: [k, d]
template <typename T>
__global__ void square_centroids(const T* __restrict__ centroids, std::size_t d, T* norms) {
  const T* c = centroids + blockIdx.x * d;
  T squared = 0;
  for (std::size_t f = threadIdx.x; f < d; f += 32) {
    squared += c[f] * c[f];
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    squared += __shfl_xor_sync(0xffffffffu, squared, offset);
  }
  if (threadIdx.x == 0) {
    norms[blockIdx.x] = squared;
  }
}

/// Labels a chunk of points. products: [rows, k], -2 x.c; labels: [rows]. `lanes` threads, a power
/// of two up to 32, share a row: with many centroids that makes a warp's reads contiguous.
template <typename T>
__global__ void label_rows(const T* __restrict__ products, const T* __restrict__ norms,
                           std::size_t rows, unsigned k, unsigned lanes, std::int32_t* labels,
                           WantedFacts wanted) {
  const std::size_t row = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  const unsigned lane = threadIdx.x % lanes;
  T smallest = INFINITY;
  unsigned nearest = lane;
  if (row < rows) { // no early return: shuffles and the facts below need every thread
    for (unsigned j = lane; j < k; j += lanes) {
      const T value = products[row * k + j] + norms[j];
      if (value < smallest) {
        smallest = value;
        nearest = j;
      }
    }
  }
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
    const T value = __shfl_xor_sync(0xffffffffu, smallest, offset);
    const unsigned j = __shfl_xor_sync(0xffffffffu, nearest, offset);
    if (value < smallest || (value == smallest && j < nearest)) { // ties go to the lowest index
      smallest = value;
      nearest = j;
    }
  }
  bool changed = false;
  if (row < rows && lane == 0) {
    changed = labels[row] != static_cast<std::int32_t>(nearest);
    labels[row] = static_cast<std::int32_t>(nearest);
  }
  flag_block(changed, wanted.labels_changed);
}

/// Adds the distance of every point to its centroid to the loss: by the difference, because the
/// stop rule compares losses that the expansion would drown in its rounding. points: [n, d]
template <typename T>
__global__ void sum_distances(const T* __restrict__ points, const T* __restrict__ centroids,
                              const std::int32_t* __restrict__ labels, std::size_t n, std::size_t d,
                              unsigned lanes, double* loss) {
  const std::size_t rows = blockDim.x / lanes;
  const unsigned lane = threadIdx.x % lanes;
  double sum = 0.0;
  // All threads of a block go round equally often, so that the shuffles have whole warps.
  for (std::size_t first = blockIdx.x * rows; first < n; first += gridDim.x * rows) {
    const std::size_t i = first + threadIdx.x / lanes;
    T squared = 0;
    for (std::size_t f = lane; i < n && f < d; f += lanes) {
      const T difference = points[i * d + f] - centroids[labels[i] * d + f];
      squared += difference * difference;
    }
    for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
      squared += __shfl_xor_sync(0xffffffffu, squared, offset);
    }
    sum += lane == 0 ? static_cast<double>(sqrt(squared)) : 0.0;
  }
  add_block(sum, loss);
}

/// Adds every point to the sum of its cluster, in shared memory [k, d] and then once per block to
/// the global sums, or at once to those. points: [n, d], sums: [k, d], counts: [k]
template <bool kShared, typename T>
__global__ void sum_clusters(const T* __restrict__ points, const std::int32_t* __restrict__ labels,
                             std::size_t n, std::size_t d, std::size_t k, unsigned lanes, T* sums,
                             unsigned* counts) {
  extern __shared__ __align__(16) unsigned char s_bytes[];
  T* block_sums = kShared ? reinterpret_cast<T*>(s_bytes) : sums;
  unsigned* block_counts = kShared ? reinterpret_cast<unsigned*>(block_sums + k * d) : counts;
  if (kShared) {
    for (std::size_t e = threadIdx.x; e < k * d; e += blockDim.x) {
      block_sums[e] = 0;
      if (e < k) {
        block_counts[e] = 0;
      }
    }
    __syncthreads(); // all is clear before the first addition
  }
  const unsigned lane = threadIdx.x % lanes;
  const std::size_t rows = blockDim.x / lanes;
  for (std::size_t i = blockIdx.x * rows + threadIdx.x / lanes; i < n; i += gridDim.x * rows) {
    const auto cluster = static_cast<std::size_t>(labels[i]);
    for (std::size_t f = lane; f < d; f += lanes) {
      atomicAdd(&block_sums[cluster * d + f], points[i * d + f]); // rows share a cluster
    }
    if (lane == 0) {
      atomicAdd(&block_counts[cluster], 1u);
    }
  }
  if (kShared) {
    __syncthreads(); // the sums of the block are complete before they are passed on
    for (std::size_t e = threadIdx.x; e < k * d; e += blockDim.x) {
      atomicAdd(&sums[e], block_sums[e]);
      if (e < k) {
        atomicAdd(&counts[e], block_counts[e]);
      }
    }
  }
}

/// Moves the centroid of cluster blockIdx.x to the mean of its points. Keeps the one that entered
/// the pass, and clears what it has used.
template <typename T>
__global__ void update_means(std::size_t d, T* centroids, T* entering, T* sums, unsigned* counts,
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
class KmeansCublas final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::size_t most = std::numeric_limits<int>::max();
    return shape.k <= most && shape.d <= most
               ? ""
               : "cuBLAS counts k and d in ints, which end at " + std::to_string(most);
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows.data();
    const std::size_t n = shape.n, d = shape.d, k = shape.k;
    cublasHandle_t handle = nullptr;
    check_cublas(cublasCreate(&handle), "cublasCreate");
    cublas_.reset(handle);
    chunk_ = std::min(n, std::max<std::size_t>(kProductBytes / (k * sizeof(T)), kThreads));
    label_lanes_ = static_cast<unsigned>(std::clamp<std::size_t>(std::bit_floor(k / 4), 1, 32));
    row_lanes_ = static_cast<unsigned>(std::min<std::size_t>(std::bit_ceil(d), 32));
    const std::size_t block_bytes = k * d * sizeof(T) + k * sizeof(unsigned);
    shared_bytes_ = block_bytes <= kSharedBytes ? block_bytes : 0;
    sum_clusters_ = shared_bytes_ > 0 ? sum_clusters<true, T> : sum_clusters<false, T>;
    blocks_ = blocks_at_most(n * row_lanes_, kThreads,
                             resident_blocks(sum_clusters_, kThreads, shared_bytes_));
    d_norms_ = DeviceBuffer<T>(k);
    d_products_ = DeviceBuffer<T>(chunk_ * k);
    d_sums_ = DeviceBuffer<T>(k * d);
    d_counts_ = DeviceBuffer<unsigned>(k);
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
      assign(answer, observer);
      if (stop.wants_loss()) {
        launch_sum_distances(answer, observer);
      }
      update(answer, observer);
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts_.finish_pass()));
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override {
    return std::string("sums in ") + (shared_bytes_ > 0 ? "shared" : "global") +
           " memory, chunks of " + std::to_string(chunk_) + " points";
  }

private:
  struct Destroy {
    void operator()(cublasHandle_t handle) const { static_cast<void>(cublasDestroy(handle)); }
  };

  void assign(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "assign", cudaStreamLegacy);
    square_centroids<<<blocks_for(shape_.k, 1), 32>>>(answer.centroids.data(), shape_.d,
                                                      d_norms_.data());
    check_launch("square_centroids");
    for (std::size_t first = 0; first < shape_.n; first += chunk_) {
      const std::size_t rows = std::min(chunk_, shape_.n - first);
      multiply(points_ + first * shape_.d, rows, answer.centroids.data());
      label_rows<<<blocks_for(rows * label_lanes_, kThreads), kThreads>>>(
          d_products_.data(), d_norms_.data(), rows, static_cast<unsigned>(shape_.k), label_lanes_,
          answer.labels.data() + first, facts_.wanted());
      check_launch("label_rows");
    }
  }

  /// products [rows, k] = -2 points [rows, d] * centroids^T [d, k]. cuBLAS is column-major and
  /// takes each of our row-major matrices for its transpose, so it is asked for
  /// products^T [k, rows] = -2 (centroids^T)^T [k, d] * points^T [d, rows].
  void multiply(const T* points, std::size_t rows, const T* centroids) {
    constexpr bool kFloat = sizeof(T) == sizeof(float);
    constexpr cudaDataType kType = kFloat ? CUDA_R_32F : CUDA_R_64F;
    constexpr cublasComputeType_t kCompute =
        kFloat ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_64F_PEDANTIC;
    const int d = static_cast<int>(shape_.d);
    const int k = static_cast<int>(shape_.k);
    const T alpha = -2;
    const T beta = 0;
    check_cublas(cublasGemmEx(cublas_.get(), CUBLAS_OP_T, CUBLAS_OP_N, k, static_cast<int>(rows), d,
                              &alpha, centroids, kType, d, points, kType, d, &beta,
                              d_products_.data(), kType, k, kCompute, CUBLAS_GEMM_DEFAULT),
                 "cublasGemmEx");
  }

  void launch_sum_distances(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "check", cudaStreamLegacy);
    sum_distances<<<blocks_, kThreads>>>(points_, answer.centroids.data(), answer.labels.data(),
                                         shape_.n, shape_.d, row_lanes_, facts_.wanted().loss);
    check_launch("sum_distances");
  }

  void update(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "update", cudaStreamLegacy);
    sum_clusters_<<<blocks_, kThreads, shared_bytes_>>>(points_, answer.labels.data(), shape_.n,
                                                        shape_.d, shape_.k, row_lanes_,
                                                        d_sums_.data(), d_counts_.data());
    check_launch("sum_clusters");
    update_means<<<blocks_for(shape_.k, 1), 128>>>(
        shape_.d, answer.centroids.data(), answer.entering.data(), d_sums_.data(), d_counts_.data(),
        facts_.wanted(), facts_.to_clear());
    check_launch("update_means");
  }

  Shape shape_;
  const T* points_ = nullptr; // [n, d]
  std::unique_ptr<cublasContext, Destroy> cublas_;
  std::size_t chunk_ = 0, shared_bytes_ = 0;
  unsigned label_lanes_ = 1, row_lanes_ = 1, blocks_ = 1;
  decltype(&sum_clusters<true, T>) sum_clusters_ = nullptr;
  DeviceBuffer<T> d_norms_;         // [k]
  DeviceBuffer<T> d_products_;      // [chunk, k]
  DeviceBuffer<T> d_sums_;          // [k, d]
  DeviceBuffer<unsigned> d_counts_; // [k]
  FactsBuffer facts_;
};

const Registration registration({.name = "kmeans_cublas",
                                 .idea = "all distances as one matrix product in plain float32",
                                 .source = "article 004's expansion, by cuBLAS",
                                 .device = Device::gpu,
                                 .distance = DistanceForm::expanded,
                                 .deterministic = false,
                                 .previous = "kmeans_cuda_block_sums"},
                                both_precisions<KmeansCublas>());

} // namespace
} // namespace clusterbench

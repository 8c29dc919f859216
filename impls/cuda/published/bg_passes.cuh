// BG k-means: folds the points, launches the two kernels of a pass and adds up the threads' sums on
// the host. The variants differ in the shared memory that a block may use.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace clusterbench::cuda {

inline constexpr std::size_t kConstantBytes = 65536; // what every CUDA device has
// One more addition down a column costs the device about 300 ns of waiting, one more column the
// host about 0.7 ns for each of its sums: n (d + 1) 300 / width + k (d + 1) 0.7 width is least at
// width = sqrt(430 n / k), whatever d is.
inline constexpr double kWaitingPerSum = 430.0;

struct Sizes {
  std::size_t n;
  unsigned d, k; // k d fits constant memory, hence 32 bits
};

/// [d, k]. One symbol for both precisions of a module, so each pass uploads its own.
static __constant__ double c_centroids[kConstantBytes / sizeof(double)];

/// Point p goes to column p % width of row p / width, feature by feature.
/// rows: [n, d], columns: [n / width, d, width]
template <typename T>
__global__ void fold_points(const T* __restrict__ rows, Sizes sizes, std::size_t width,
                            T* columns) {
  const std::size_t e = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::size_t p = e / (sizes.d * width) * width + e % width;
  if (p < sizes.n) {
    columns[e] = rows[p * sizes.d + e / width % sizes.d];
  }
}

/// Labels points: thread (column, row) takes point row * width + column of [n / width, d, width].
/// Dynamic shared memory: [batch_size, threads]. d_squares and d_changed may be null.
template <typename T>
__global__ void assign_columns(const T* __restrict__ d_columns, Sizes sizes, unsigned batch_size,
                               std::int32_t* d_labels, T* d_squares, int* d_changed) {
  extern __shared__ __align__(16) unsigned char s_bytes[];
  // A thread keeps to its own column: neighbours hit neighbouring banks, and no barrier is needed.
  T* s_errors = reinterpret_cast<T*>(s_bytes) + threadIdx.x;
  const T* centroids = reinterpret_cast<const T*>(c_centroids);
  const auto [n, d, k] = sizes;
  const std::size_t width = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::size_t row = blockIdx.y; row * width + column < n; row += gridDim.y) {
    T smallest = INFINITY;
    unsigned label = 0;
    for (unsigned first = 0; first < k; first += batch_size) {
      const unsigned batch = min(batch_size, k - first);
      for (unsigned j = 0; j < batch; ++j) {
        s_errors[j * blockDim.x] = 0;
      }
      for (unsigned f = 0; f < d; ++f) {
        const T x = d_columns[(row * d + f) * width + column]; // read once for the whole batch
        for (unsigned j = 0; j < batch; ++j) {
          const T difference = x - centroids[f * k + first + j];
          s_errors[j * blockDim.x] += difference * difference;
        }
      }
      for (unsigned j = 0; j < batch; ++j) {
        if (s_errors[j * blockDim.x] < smallest) { // strict: ties stay with the lowest index
          smallest = s_errors[j * blockDim.x];
          label = first + j;
        }
      }
    }
    const std::size_t p = row * width + column;
    if (d_changed != nullptr && d_labels[p] != static_cast<std::int32_t>(label)) {
      d_changed[column] = 1; // whoever writes writes the same
    }
    d_labels[p] = static_cast<std::int32_t>(label);
    if (d_squares != nullptr) {
      d_squares[p] = smallest;
    }
  }
}

/// Adds the points of a thread's column to its column of sums. [d_sums: k (d + 1) rows of width: d
/// sums and a count per cluster; if d_squares is given, one more row for the distances]
template <typename T>
__global__ void sum_columns(const T* __restrict__ d_columns, Sizes sizes,
                            const std::int32_t* __restrict__ d_labels,
                            const T* __restrict__ d_squares, T* d_sums) {
  const auto [n, d, k] = sizes;
  const std::size_t width = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t column = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  T distances = 0;
  for (std::size_t row = 0; row * width + column < n; ++row) {
    const std::size_t p = row * width + column;
    T* sums = d_sums + static_cast<std::size_t>(d_labels[p]) * (d + 1) * width + column;
    for (unsigned f = 0; f < d; ++f) {
      sums[f * width] += d_columns[(row * d + f) * width + column];
    }
    sums[d * width] += 1; // exact: of at least 128 columns none has more than 2^24 points
    distances += d_squares != nullptr ? sqrt(d_squares[p]) : T{0};
  }
  if (d_squares != nullptr) {
    d_sums[static_cast<std::size_t>(k) * (d + 1) * width + column] = distances;
  }
}

/// Sum of a row; eight partial sums, so that additions need not wait for one another.
template <typename T>
double sum_of_row(const T* row, std::size_t width) {
  std::array<double, 8> lanes{};
  for (std::size_t c = 0; c < width; c += lanes.size()) { // width is a multiple of 128
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      lanes[l] += static_cast<double>(row[c + l]);
    }
  }
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

/// kSharedBytes: of a block; 0 for all that the device has.
template <typename T, std::size_t kSharedBytes>
class BgPasses final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::size_t room = kConstantBytes / sizeof(T);
    return shape.d <= room / shape.k
               ? ""
               : "k = " + std::to_string(shape.k) + " centroids of d = " + std::to_string(shape.d) +
                     " exceed the " + std::to_string(room) +
                     " values that fit the 65536 bytes of constant memory";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    const std::size_t n = shape.n, d = shape.d, k = shape.k;
    stop_ = shape.stop;
    sizes_ = {n, static_cast<unsigned>(d), static_cast<unsigned>(k)};
    const StopTest stop(stop_);
    choose_batches();
    const std::size_t useful =
        std::min(resident_blocks(sum_columns<T>, threads_, 0), ceil_div(n, threads_));
    const double balanced = std::sqrt(kWaitingPerSum * static_cast<double>(n / k));
    blocks_ = static_cast<unsigned>(
        std::clamp<std::size_t>(static_cast<std::size_t>(balanced) / threads_, 1, useful));
    width_ = std::size_t{blocks_} * threads_;
    d_columns_ = DeviceBuffer<T>(ceil_div(n, width_) * d * width_);
    fold_points<<<blocks_for(d_columns_.size(), 256), 256>>>(points.rows.data(), sizes_, width_,
                                                             d_columns_.data());
    check_launch("fold_points");
    const std::size_t sum_rows = k * (d + 1) + (stop.wants_loss() ? 1 : 0);
    d_squares_ = DeviceBuffer<T>(stop.wants_loss() ? n : 0);
    d_changed_ = DeviceBuffer<int>(stop.wants_labels_changed() ? width_ : 0);
    d_sums_ = DeviceBuffer<T>(sum_rows * width_);
    changed_.resize(d_changed_.size());
    sums_ = PinnedBuffer<T>(sum_rows * width_);
    transposed_ = PinnedBuffer<T>(k * d);
    centroids_.resize(k * d);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    copy_values(start.centroids, centroids_.data());
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"); // the host reads them now
    fill_bytes(answer.labels, 0xFF); // -1: every label changes in the first pass
    StopTest stop(stop_);
    PassFacts facts;
    do {
      assign(answer.labels.data(), observer);
      update(answer.labels.data(), observer);
      download(observer);
      entering_ = centroids_;
      facts = sum_on_host(observer, stop);
      if (observer.recording()) {
        copy_values(centroids_, answer.centroids.data());
        observer.pass(answer.centroids);
      }
    } while (!stop.after_pass(facts));
    copy_values(entering_, answer.entering.data());
    copy_values(centroids_, answer.centroids.data());
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override {
    return std::to_string(threads_) + " threads, batches of at most " + std::to_string(k_max_) +
           " centroids, " + std::to_string(width_) + " columns";
  }

private:
  /// The article's rule, with the size of T for that of float.
  static std::size_t k_max(std::size_t shared_bytes, std::size_t threads) {
    return (shared_bytes - 1) / (sizeof(T) * threads);
  }

  void choose_batches() {
    const bool article = kSharedBytes > 0;
    const std::size_t bytes = article ? kSharedBytes : shared_memory_limit();
    const std::size_t k = sizes_.k;
    const bool one_batch_of_half = article && k > k_max(bytes, 256) && k <= k_max(bytes, 128);
    threads_ = one_batch_of_half ? 128 : 256;
    k_max_ = k_max(bytes, threads_);
    batch_ = static_cast<unsigned>(std::min(k_max_, k));
    shared_bytes_ = batch_ * threads_ * sizeof(T);
    allow_shared_memory(assign_columns<T>, shared_bytes_);
  }

  void assign(std::int32_t* labels, Observer<T>& observer) {
    const Phase phase(observer, "assign", cudaStreamLegacy);
    const auto [n, d, k] = sizes_;
    for (std::size_t c = 0; c < centroids_.size(); ++c) {
      transposed_[c % d * k + c / d] = centroids_[c];
    }
    check(cudaMemcpyToSymbolAsync(c_centroids, transposed_.data(), transposed_.bytes(), 0,
                                  cudaMemcpyHostToDevice),
          "cudaMemcpyToSymbolAsync");
    d_changed_.zero();
    const std::size_t rows = std::min<std::size_t>(ceil_div(n, width_), 65535);
    const dim3 grid(blocks_, static_cast<unsigned>(rows)); // rows need not wait for one another
    assign_columns<<<grid, threads_, shared_bytes_>>>(d_columns_.data(), sizes_, batch_, labels,
                                                      d_squares_.data(), d_changed_.data());
    check_launch("assign_columns");
  }

  void update(const std::int32_t* labels, Observer<T>& observer) {
    const Phase phase(observer, "update", cudaStreamLegacy);
    d_sums_.zero();
    sum_columns<<<blocks_, threads_>>>(d_columns_.data(), sizes_, labels, d_squares_.data(),
                                       d_sums_.data());
    check_launch("sum_columns");
  }

  /// Waits: the last summation is the host's.
  void download(Observer<T>& observer) {
    const Phase phase(observer, "download", cudaStreamLegacy);
    d_sums_.download(sums_.span());
    if (!changed_.empty()) {
      d_changed_.download(changed_);
    }
  }

  /// Adds up the columns and moves the centroids; that of an empty cluster stays.
  PassFacts sum_on_host(Observer<T>& observer, const StopTest& stop) {
    const Phase phase(observer, "host sum");
    const std::size_t d = sizes_.d, k = sizes_.k;
    PassFacts facts;
    for (std::size_t j = 0; j < k; ++j) {
      const T* rows = sums_.data() + j * (d + 1) * width_;
      const double count = sum_of_row(rows + d * width_, width_);
      for (std::size_t f = 0; f < d && count > 0.0; ++f) {
        T& c = centroids_[j * d + f];
        const T mean = static_cast<T>(sum_of_row(rows + f * width_, width_) / count);
        const double shift = static_cast<double>(mean) - static_cast<double>(c);
        facts.squared_shift += shift * shift;
        c = mean;
      }
    }
    facts.loss = stop.wants_loss() ? sum_of_row(sums_.data() + k * (d + 1) * width_, width_) : 0.0;
    facts.labels_changed = std::ranges::find(changed_, 1) != changed_.end();
    return facts;
  }

  StopRule stop_;
  Sizes sizes_{};
  unsigned threads_ = 0, batch_ = 0, blocks_ = 0;
  std::size_t k_max_ = 0, shared_bytes_ = 0, width_ = 0;
  DeviceBuffer<T> d_columns_;   // [n / width, d, width]
  DeviceBuffer<T> d_squares_;   // [n] to the nearest centroid, for the loss
  DeviceBuffer<int> d_changed_; // [width], and on the host:
  std::vector<int> changed_;
  DeviceBuffer<T> d_sums_;              // [k (d + 1), and 1 for the loss; width], on the host:
  PinnedBuffer<T> sums_;                //
  PinnedBuffer<T> transposed_;          // [d, k]
  std::vector<T> centroids_, entering_; // [k, d]
};

} // namespace clusterbench::cuda

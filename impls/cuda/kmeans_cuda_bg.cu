// BG k-means: every thread adds up a column of the data, and the host adds up the threads.
//
// Idea: centroids in constant memory, which broadcasts one value to a warp; data folded into as
//   many columns as there are threads; centroids in batches of kMax, so that the squared errors of
//   a batch fit into shared memory, one column a thread. No barrier and no atomic anywhere.
// Changed since kmeans_cuda_soa: additions cannot collide, so results repeat to the bit; the price
//   is k (d + 1) partial sums a thread, which the host waits for and adds up in every pass.
// Source: article 002, sections 2.3 and 3. Corrected: errors are cleared for every batch, the
//   smallest is carried from batch to batch, the last batch may be short, no index leaves the data.
// Two registrations: the article's 16,384 bytes of shared memory (256 threads; 128 where all of k
//   then fits one batch), and what the device really has.
// Cost per iteration: (ceil(k / kMax) + 1) n d values read, k (d + 1) columns of sums written,
//   downloaded and added on the host; 3 n k d + n d flops.
// Limits: k d values within 64 KiB of constant memory; the host takes part in every pass.
#include "impls/contract.hpp"
#include "impls/cuda/support/buffer.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/phase_timer.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace clusterbench {
namespace {

constexpr std::size_t kConstantBytes = 65536;      // what every CUDA device has
constexpr std::size_t kArticleSharedBytes = 16384; // of a block in article 002
// One more addition down a column costs the device about 300 ns of waiting, one more column the host
// about 0.7 ns for each of its sums: n (d + 1) 300 / width + k (d + 1) 0.7 width is least at
// width = sqrt(430 n / k), whatever d is.
constexpr double kWaitingPerSum = 430.0;

struct Shape {
  std::size_t n;
  unsigned d, k; // k d fits constant memory, hence 32 bits
};

/// [d, k]. One symbol for every object and precision of this file, so each pass uploads its own.
__constant__ double c_centroids[kConstantBytes / sizeof(double)];

/// Labels points: thread (column, row) takes point row * width + column of [n / width, d, width].
/// Dynamic shared memory: [batch_size, threads]. d_squares and d_changed may be null.
template <typename T>
__global__ void assign_columns(const T* __restrict__ d_columns, Shape shape, unsigned batch_size,
                               std::int32_t* d_labels, T* d_squares, int* d_changed) {
  extern __shared__ __align__(16) unsigned char s_bytes[];
  // A thread keeps to its own column: neighbours hit neighbouring banks, and no barrier is needed.
  T* s_errors = reinterpret_cast<T*>(s_bytes) + threadIdx.x;
  const T* centroids = reinterpret_cast<const T*>(c_centroids);
  const auto [n, d, k] = shape;
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
__global__ void sum_columns(const T* __restrict__ d_columns, Shape shape,
                            const std::int32_t* __restrict__ d_labels,
                            const T* __restrict__ d_squares, T* d_sums) {
  const auto [n, d, k] = shape;
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

enum class SharedMemory { article, device };

template <typename T, SharedMemory kShared>
class KmeansCudaBg final : public Variant<T> {
public:
  std::string refuse(const Problem<T>& problem) const override {
    const std::size_t room = kConstantBytes / sizeof(T);
    return problem.d <= room / problem.k
               ? ""
               : "k = " + std::to_string(problem.k) +
                     " centroids of d = " + std::to_string(problem.d) + " exceed the " +
                     std::to_string(room) + " values that fit the 65536 bytes of constant memory";
  }

  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    const auto [n, d, k] = std::array{problem.n, problem.d, problem.k};
    shape_ = {n, static_cast<unsigned>(d), static_cast<unsigned>(k)};
    const StopTest stop(problem.stop);
    stream_ = cuda::Stream::create();
    choose_batches();
    sum_rows_ = k * (d + 1) + (stop.wants_loss() ? 1 : 0);
    const std::size_t useful =
        std::min(cuda::resident_blocks(sum_columns<T>, threads_, 0), cuda::ceil_div(n, threads_));
    const double balanced = std::sqrt(kWaitingPerSum * static_cast<double>(n / k));
    blocks_ = static_cast<unsigned>(
        std::clamp<std::size_t>(static_cast<std::size_t>(balanced) / threads_, 1, useful));
    width_ = static_cast<std::size_t>(blocks_) * threads_;
    fold_points();
    d_labels_ = cuda::DeviceBuffer<std::int32_t>(n);
    d_squares_ = cuda::DeviceBuffer<T>(stop.wants_loss() ? n : 0);
    d_changed_ = cuda::DeviceBuffer<int>(stop.wants_labels_changed() ? width_ : 0);
    changed_.resize(d_changed_.size());
    d_sums_ = cuda::DeviceBuffer<T>(sum_rows_ * width_);
    sums_ = cuda::PinnedBuffer<T>(sum_rows_ * width_);
    transposed_ = cuda::PinnedBuffer<T>(k * d);
  }

  void run(Observer<T>& observer) override {
    centroids_.assign(problem_.centroids.begin(), problem_.centroids.end());
    d_labels_.fill_bytes(0xFF, stream_); // label -1: the first pass changes every label
    cuda::PhaseTimer<T> timer(observer, stream_);
    StopTest stop(problem_.stop);
    PassFacts facts;
    do {
      timer.measure("assign", [&] { assign(); });
      timer.measure("update", [&] { update(); });
      timer.measure("download", [&] {
        d_sums_.download(sums_.span(), stream_); // waits: the last summation is the host's
        d_changed_.download(changed_, stream_);
      });
      facts = sum_on_host(observer, stop);
      observer.pass(centroids_);
    } while (!stop.after_pass(facts));
    iterations_ = stop.passes();
  }

  void fetch(Result<T>& result) override {
    d_labels_.download(result.labels, stream_);
    std::ranges::copy(centroids_, result.centroids.begin());
    result.iterations = iterations_;
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
    const bool article = kShared == SharedMemory::article;
    const std::size_t bytes = article ? kArticleSharedBytes : cuda::shared_memory_limit();
    const std::size_t k = problem_.k;
    const bool one_batch_of_half = article && k > k_max(bytes, 256) && k <= k_max(bytes, 128);
    threads_ = one_batch_of_half ? 128 : 256;
    k_max_ = k_max(bytes, threads_);
    batch_ = static_cast<unsigned>(std::min(k_max_, k));
    shared_bytes_ = batch_ * threads_ * sizeof(T);
    cuda::allow_shared_memory(assign_columns<T>, shared_bytes_);
  }

  /// Point p goes to column p % width of row p / width, feature by feature.
  void fold_points() {
    const auto [n, d] = std::array{problem_.n, problem_.d};
    std::vector<T> columns(cuda::ceil_div(n, width_) * d * width_);
    for (std::size_t first = 0; first < n; first += width_) {
      for (std::size_t f = 0; f < d; ++f) {
        for (std::size_t c = 0; c < std::min(width_, n - first); ++c) {
          columns[first * d + f * width_ + c] = problem_.points[(first + c) * d + f];
        }
      }
    }
    d_columns_ = cuda::DeviceBuffer<T>(columns.size());
    d_columns_.upload(columns, stream_);
  }

  void assign() {
    const auto [n, d, k] = shape_;
    for (std::size_t c = 0; c < centroids_.size(); ++c) {
      transposed_[c % d * k + c / d] = centroids_[c];
    }
    cuda::check(cudaMemcpyToSymbolAsync(c_centroids, transposed_.data(),
                                        transposed_.span().size_bytes(), 0, cudaMemcpyHostToDevice,
                                        stream_),
                "cudaMemcpyToSymbolAsync");
    d_changed_.zero(stream_);
    const std::size_t rows = std::min<std::size_t>(cuda::ceil_div(n, width_), 65535);
    const dim3 grid(blocks_, static_cast<unsigned>(rows)); // rows need not wait for one another
    assign_columns<<<grid, static_cast<unsigned>(threads_), shared_bytes_, stream_>>>(
        d_columns_.data(), shape_, batch_, d_labels_.data(), d_squares_.data(), d_changed_.data());
    cuda::check_launch("assign_columns");
  }

  void update() {
    d_sums_.zero(stream_);
    sum_columns<<<blocks_, static_cast<unsigned>(threads_), 0, stream_>>>(
        d_columns_.data(), shape_, d_labels_.data(), d_squares_.data(), d_sums_.data());
    cuda::check_launch("sum_columns");
  }

  /// Adds up the columns and moves the centroids; that of an empty cluster stays.
  PassFacts sum_on_host(Observer<T>& observer, const StopTest& stop) {
    const Phase phase(observer, "host sum");
    const auto [d, k] = std::array{problem_.d, problem_.k};
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

  Problem<T> problem_;
  Shape shape_{};
  cuda::Stream stream_;
  std::size_t threads_ = 0, k_max_ = 0, shared_bytes_ = 0, width_ = 0, sum_rows_ = 0;
  unsigned batch_ = 0, blocks_ = 0;
  cuda::DeviceBuffer<T> d_columns_;           // [n / width, d, width]
  cuda::DeviceBuffer<std::int32_t> d_labels_; // [n]
  cuda::DeviceBuffer<T> d_squares_;           // [n] to the nearest centroid, for the loss
  cuda::DeviceBuffer<int> d_changed_;         // [width], and on the host:
  std::vector<int> changed_;
  cuda::DeviceBuffer<T> d_sums_;     // [sum_rows, width], and on the host:
  cuda::PinnedBuffer<T> sums_;       //
  cuda::PinnedBuffer<T> transposed_; // [d, k]
  std::vector<T> centroids_;         // [k, d]
  std::size_t iterations_ = 0;
};

template <typename T>
using ArticleBg = KmeansCudaBg<T, SharedMemory::article>;
template <typename T>
using DeviceBg = KmeansCudaBg<T, SharedMemory::device>;

Meta bg_meta(std::string name, std::string idea, std::string previous) {
  return {.name = std::move(name),
          .idea = std::move(idea),
          .source = "article 002, sections 2.3 and 3",
          .device = Device::gpu,
          .previous = std::move(previous)};
}

const Registration with_the_articles_memory(
    bg_meta("kmeans_cuda_bg", "a column of sums a thread; 16 KiB of shared memory as in 2009",
            "kmeans_cuda_soa"),
    both_precisions<ArticleBg>());
const Registration with_the_devices_memory(
    bg_meta("kmeans_cuda_bg_device", "a column of sums a thread; all shared memory there is",
            "kmeans_cuda_bg"),
    both_precisions<DeviceBg>());

} // namespace
} // namespace clusterbench

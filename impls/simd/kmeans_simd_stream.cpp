// K-means on a file that need not fit the memory: a block of rows is labelled and summed while the
// next ones are read.
//
// Changed since kmeans_simd: the points are never in memory as a whole. Three buffers go round: one is
//   worked on, two are being read, past the kernel's cache where the file was opened so. Reading is
//   asynchronous (io_submit), which takes no thread and hardly any processor time: a pass takes as
//   long as reading the file or as its own arithmetic, whichever is longer. The reads of the next pass
//   begin before this one ends. A chunk of a block is turned into columns in every pass, where
//   kmeans_simd does so once.
// Source: Bradley, Fayyad and Reina, Scaling clustering algorithms to large databases, 1998 (passes
//   over a file, a buffer at a time); the passes are kmeans_simd's.
// Cost per iteration: n d sizeof(T) bytes read from the file; 3 n k d + n d flops.
// Limits: bits differ between numbers of threads and between instruction sets. Many centroids go without
//   kmeans_simd's sieve. Where the file can only be read through the cache, reading is no longer
//   asynchronous.
#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace clusterbench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

constexpr std::size_t kPage = 4096; // reads past the cache begin and end at multiples

/// Reads some bytes of a file at a time, in a fixed order that begins again at its end, ahead of whoever
/// takes them.
class ReadAhead {
public:
  struct Piece {
    std::size_t offset, bytes; // in the file
  };
  static constexpr std::size_t kBuffers = 3;

  ReadAhead(int descriptor, std::vector<Piece> pieces)
      : descriptor_(descriptor), pieces_(std::move(pieces)) {
    if (syscall(SYS_io_setup, kBuffers, &context_) != 0) {
      throw std::runtime_error(std::string("io_setup: ") + std::strerror(errno));
    }
    std::size_t most = 0;
    for (const Piece& piece : pieces_) {
      most = std::max(most, piece.bytes + 2 * kPage);
    }
    for (Buffer& buffer : buffers_) {
      buffer.memory.reset(
          static_cast<char*>(std::aligned_alloc(kPage, most / kPage * kPage + kPage)));
      if (buffer.memory == nullptr) {
        throw std::bad_alloc();
      }
    }
  }
  ~ReadAhead() {
    wait_for_all();
    syscall(SYS_io_destroy, context_);
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Begins with the first piece, whatever was read ahead before.
  void rewind() {
    wait_for_all();
    asked_ = taken_ = 0;
    while (asked_ < kBuffers) {
      ask();
    }
  }

  /// The next piece, which stays until let_go(). Throws std::runtime_error.
  const char* take() {
    Buffer& buffer = buffers_[taken_ % kBuffers];
    while (buffer.in_flight) {
      wait_for_one();
    }
    const Piece& piece = pieces_[taken_++ % pieces_.size()];
    const std::size_t before = piece.offset % kPage;
    if (buffer.result < 0) {
      throw std::runtime_error("the points cannot be read at byte " + std::to_string(piece.offset) +
                               ": " + std::strerror(static_cast<int>(-buffer.result)));
    }
    if (static_cast<std::size_t>(buffer.result) < before + piece.bytes) {
      throw std::runtime_error(
          "the points end too early: the file has no byte " +
          std::to_string(piece.offset - before + static_cast<std::size_t>(buffer.result)));
    }
    return buffer.memory.get() + before;
  }

  /// The piece that was taken last is done with: its buffer takes another one.
  void let_go() { ask(); }

private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  struct Buffer {
    std::unique_ptr<char, Free> memory;
    iocb request{};
    bool in_flight = false;
    std::int64_t result = 0; // bytes, or an error's number below 0
  };

  void ask() {
    Buffer& buffer = buffers_[asked_ % kBuffers];
    const Piece& piece = pieces_[asked_++ % pieces_.size()];
    const std::size_t begin = piece.offset / kPage * kPage;
    buffer.request = {};
    buffer.request.aio_data = reinterpret_cast<std::uintptr_t>(&buffer);
    buffer.request.aio_lio_opcode = IOCB_CMD_PREAD;
    buffer.request.aio_fildes = static_cast<std::uint32_t>(descriptor_);
    buffer.request.aio_buf = reinterpret_cast<std::uintptr_t>(buffer.memory.get());
    buffer.request.aio_nbytes = (piece.offset + piece.bytes - begin + kPage - 1) / kPage * kPage;
    buffer.request.aio_offset = static_cast<std::int64_t>(begin);
    iocb* request = &buffer.request;
    buffer.in_flight = syscall(SYS_io_submit, context_, 1, &request) == 1;
    if (!buffer.in_flight) {
      buffer.result = -errno; // whoever takes it is told
    }
  }

  void wait_for_one() {
    io_event event{};
    while (syscall(SYS_io_getevents, context_, 1, 1, &event, nullptr) != 1) {
      if (errno != EINTR) {
        throw std::runtime_error(std::string("io_getevents: ") + std::strerror(errno));
      }
    }
    auto& buffer = *reinterpret_cast<Buffer*>(static_cast<std::uintptr_t>(event.data));
    buffer.result = event.res;
    buffer.in_flight = false;
  }

  void wait_for_all() {
    for (Buffer& buffer : buffers_) {
      while (buffer.in_flight) {
        wait_for_one();
      }
    }
  }

  int descriptor_;
  std::vector<Piece> pieces_;
  aio_context_t context_ = 0;
  Buffer buffers_[kBuffers];
  std::size_t asked_ = 0, taken_ = 0; // pieces
};

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  simd::AlignedVector<T> columns;   // of a chunk
  std::vector<std::int32_t> labels; // of a chunk
  std::vector<T> distances;         // of a chunk
  std::vector<T> scratch;           // of the summing kernel, zeros
  std::vector<double> sums, counts; // [k, d], [k]
  double loss = 0.0;
  bool changed = false; // some label
};

template <typename T>
class KmeansSimdStream final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    // 8 MiB: long enough for a disk to be at its best, short enough for three to be little.
    const std::size_t row = d * sizeof(T);
    const std::size_t rows =
        simd::rounded_up(std::max<std::size_t>((std::size_t{8} << 20) / row, 1));
    std::vector<ReadAhead::Piece> pieces;
    blocks_.clear();
    const RowsInFile& file = points.in_file;
    for (std::size_t i = 0, count = 0; i < n; i += count) {
      const std::size_t at = (i + file.rotate) % n; // a block ends with the file's last row
      count = std::min({rows, n - i, n - at});
      blocks_.push_back({i, i + count});
      pieces.push_back({file.offset + at * row, count * row});
    }
    reader_ = std::make_unique<ReadAhead>(file.descriptor, std::move(pieces));
    // About 32 KiB of points, so that summing finds in the cache what labelling read.
    chunk_ = simd::rounded_up(std::clamp<std::size_t>((32 << 10) / row, 1, 4096));
    // A barrier of threads costs about as much as this many operations.
    constexpr std::size_t kWorthAThread = 20'000;
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    team_ = std::make_unique<simd::Team>(
        std::min(static_cast<std::size_t>(std::max(shape.threads, 1)), worth));
    parts_ = std::vector<Part<T>>(team_->size());
    for (Part<T>& part : parts_) {
      part.columns.resize(by_rows() ? 0 : chunk_ * d);
      part.labels.resize(chunk_);
      part.distances.resize(chunk_);
      part.scratch.resize(sums_in_scratch() ? simd::scratch_size<T>(k, d) : 0);
      part.sums.resize(k * d);
      part.counts.resize(k);
    }
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    std::ranges::copy(start.centroids, answer.centroids.begin());
    reader_->rewind();
    StopTest stop(shape_.stop);
    PassFacts facts;
    do {
      const auto begin = std::chrono::steady_clock::now();
      waited_ = 0.0;
      team_->run([&](std::size_t t) { assign_and_sum(t, answer, stop.wants_loss()); });
      if (failure_ != nullptr) {
        std::rethrow_exception(std::exchange(failure_, nullptr));
      }
      observer.phase("wait for rows", waited_);
      observer.phase("assign and sum", seconds_since(begin) - waited_);
      {
        const Phase phase(observer, "update");
        facts = update(answer);
        facts.labels_changed |= stop.passes() == 0;
      }
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override {
    return std::string(by_rows()                   ? "rows, "
                       : shape_.d <= simd::kSmallD ? "few features, "
                                                   : "tiles, ") +
           kernels_.isa;
  }

private:
  /// Labels and sums in one sweep over rows, without columns.
  bool by_rows() const { return shape_.d > simd::kSmallD && shape_.k <= 8; }
  /// Sums in T that stay in the cache; else in double at once.
  bool sums_in_scratch() const { return by_rows() || shape_.k * shape_.d <= 2048; }

  /// A pass as thread t sees it: the first thread takes a block, all work on their shares of it.
  void assign_and_sum(std::size_t t, Answer<T>& answer, bool wants_loss) {
    Part<T>& part = parts_[t];
    std::ranges::fill(part.sums, 0.0);
    std::ranges::fill(part.counts, 0.0);
    part.loss = 0.0;
    part.changed = false;
    for (const simd::Range& block : blocks_) {
      if (t == 0) {
        take_block();
      }
      team_->barrier();
      if (failure_ != nullptr) {
        break;
      }
      const simd::Range share = simd::share_of(block.end - block.begin, t, parts_.size());
      assign_and_sum_rows(part, block.begin, share, answer, wants_loss);
      team_->barrier();
      if (t == 0) {
        reader_->let_go();
      }
    }
    if (sums_in_scratch()) {
      kernels_.collect_sums(shape_.k, shape_.d, part.scratch.data(), part.sums.data(),
                            part.counts.data());
    }
  }

  void take_block() {
    const auto begin = std::chrono::steady_clock::now();
    try {
      rows_ = reinterpret_cast<const T*>(reader_->take());
    } catch (...) {
      failure_ = std::current_exception();
    }
    waited_ += seconds_since(begin);
  }

  /// Rows share.begin to share.end of the block, whose first is point `first`.
  void assign_and_sum_rows(Part<T>& part, std::size_t first, const simd::Range& share,
                           Answer<T>& answer, bool wants_loss) const {
    constexpr std::size_t kCollect = 4096; // points whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = share.begin; i < share.end; i += chunk_) {
      const std::size_t count = std::min(chunk_, share.end - i);
      assign_and_sum_chunk(part, &rows_[i * shape_.d], count, answer.centroids.data(), wants_loss);
      uncollected += count;
      if (sums_in_scratch() && uncollected >= kCollect) {
        kernels_.collect_sums(shape_.k, shape_.d, part.scratch.data(), part.sums.data(),
                              part.counts.data());
        uncollected = 0;
      }
      if (wants_loss) {
        part.loss += kernels_.sum_of_roots(part.distances.data(), count);
      }
      std::int32_t* labels = &answer.labels[first + i];
      part.changed |= !std::equal(labels, labels + count, part.labels.data());
      std::copy_n(part.labels.data(), count, labels);
    }
  }

  void assign_and_sum_chunk(Part<T>& part, const T* rows, std::size_t count, const T* centroids,
                            bool wants_loss) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    std::int32_t* labels = part.labels.data();
    T* distances = wants_loss ? part.distances.data() : nullptr;
    T* scratch = part.scratch.data();
    double *sums = part.sums.data(), *counts = part.counts.data();
    if (by_rows()) {
      kernels_.pass_by_rows({rows, nullptr, count, d}, centroids, k, labels, distances, scratch,
                            sums, counts);
      return;
    }
    const simd::Chunk<T> chunk{rows, part.columns.data(), count, d};
    kernels_.columns_of_rows({rows, nullptr, count, d}, nullptr, part.columns.data(), nullptr);
    (d <= simd::kSmallD ? kernels_.assign_small_d[d] : kernels_.assign_columns)(chunk, centroids, k,
                                                                                labels, distances);
    std::fill(labels + count, labels + simd::rounded_up(count), -1);
    (sums_in_scratch() ? kernels_.sum_by_label : kernels_.sum_in_double)(chunk, labels, k, scratch,
                                                                         sums, counts);
  }

  /// Moves every centroid to the mean of its points, sums of threads in the order of their numbers; that
  /// of an empty cluster stays.
  PassFacts update(Answer<T>& answer) {
    PassFacts facts{.labels_changed = false};
    for (const Part<T>& part : parts_) {
      facts.loss += part.loss;
      facts.labels_changed |= part.changed;
    }
    for (std::size_t c = 0; c < answer.centroids.size(); ++c) {
      const T entered = answer.entering[c] = answer.centroids[c];
      double sum = 0.0, count = 0.0;
      for (const Part<T>& part : parts_) {
        sum += part.sums[c];
        count += part.counts[c / shape_.d];
      }
      if (count > 0.0) {
        const auto mean = static_cast<T>(sum / count);
        const double shift = double{mean} - double{entered};
        facts.squared_shift += shift * shift;
        answer.centroids[c] = mean;
      }
    }
    return facts;
  }

  const simd::Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  Shape shape_;
  std::vector<simd::Range> blocks_; // of points
  std::unique_ptr<ReadAhead> reader_;
  std::size_t chunk_ = 0;
  const T* rows_ = nullptr; // of the block that is worked on
  double waited_ = 0.0;     // for it and those before it [s]
  std::exception_ptr failure_;
  std::vector<Part<T>> parts_;       // [threads]
  std::unique_ptr<simd::Team> team_; // last: its threads end before what they use
};

const Registration registration({.name = "kmeans_simd_stream",
                                 .idea = "blocks of rows are read while those before are worked on",
                                 .source = "Bradley, Fayyad and Reina 1998",
                                 .streams = true,
                                 .previous = "kmeans_simd"},
                                both_precisions<KmeansSimdStream>());

} // namespace
} // namespace clusterbench

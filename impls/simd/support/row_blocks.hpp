// Rows of a file, block by block: while threads work on one, the next ones are being read.
//
// Three buffers go round: one is worked on, two are being read, past the kernel's cache where the
// file was opened so. Reading is asynchronous (io_submit), which takes no thread and hardly any
// processor time. The reads of the next sweep over the rows begin before this one ends.
#pragma once

#include "impls/contract.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <linux/aio_abi.h>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace clusterbench::simd {

inline constexpr std::size_t kPage = 4096; // reads past the cache begin and end at multiples

/// A queue of the kernel for up to `kMost` reads at a time. The kernel takes some 30 ms to end one,
/// so it is left to whoever needs the next.
class ReadQueue {
public:
  static constexpr std::size_t kMost = 3;

  /// Throws std::runtime_error.
  ReadQueue() {
    const std::scoped_lock lock(left_.mutex);
    if (!left_.queues.empty()) {
      number_ = left_.queues.back();
      left_.queues.pop_back();
    } else if (syscall(SYS_io_setup, kMost, &number_) != 0) {
      throw std::runtime_error(std::string("io_setup: ") + std::strerror(errno));
    }
  }
  /// Nothing is being read any more.
  ~ReadQueue() {
    const std::scoped_lock lock(left_.mutex);
    left_.queues.push_back(number_);
  }
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;
  aio_context_t get() const { return number_; }

private:
  struct Left {
    std::mutex mutex;
    std::vector<aio_context_t> queues;
  };
  inline static Left& left_ = *new Left; // outlives all others
  aio_context_t number_ = 0;
};

/// Reads some bytes of a file at a time, in a fixed order that begins again at its end, ahead of
/// whoever takes them.
class ReadAhead {
public:
  struct Piece {
    std::size_t offset, bytes; // in the file
  };
  static constexpr std::size_t kBuffers = ReadQueue::kMost;

  ReadAhead(int descriptor, std::vector<Piece> pieces)
      : descriptor_(descriptor), pieces_(std::move(pieces)) {
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
  ~ReadAhead() { wait_for_all(); }
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
    buffer.in_flight = syscall(SYS_io_submit, queue_.get(), 1, &request) == 1;
    if (!buffer.in_flight) {
      buffer.result = -errno; // whoever takes it is told
    }
  }

  void wait_for_one() {
    io_event event{};
    while (syscall(SYS_io_getevents, queue_.get(), 1, 1, &event, nullptr) != 1) {
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
  ReadQueue queue_;
  Buffer buffers_[kBuffers];
  std::size_t asked_ = 0, taken_ = 0; // pieces
};

/// All rows of a file, turned by its rotation, in blocks for a team of threads.
template <typename T>
class RowBlocks {
public:
  /// n rows of d features. Throws std::runtime_error.
  RowBlocks(std::size_t n, std::size_t d, const RowsInFile& file) : d_(d) {
    // 8 MiB: long enough for a disk to be at its best, short enough for three to be little.
    const std::size_t row = d * sizeof(T);
    const std::size_t most = rounded_up(std::max<std::size_t>((std::size_t{8} << 20) / row, 1));
    std::vector<ReadAhead::Piece> pieces;
    for (std::size_t i = 0, count = 0; i < n; i += count) {
      const std::size_t at = (i + file.rotate) % n; // a block ends with the file's last row
      count = std::min({most, n - i, n - at});
      blocks_.push_back({i, i + count});
      pieces.push_back({file.offset + at * row, count * row});
    }
    reader_ = std::make_unique<ReadAhead>(file.descriptor, std::move(pieces));
  }

  /// Begins a run: its first sweep takes the first row first.
  void rewind() {
    reader_->rewind();
    waited_ = 0.0;
  }

  /// One sweep over all rows as thread t of a team sees it, which all its threads call.
  /// work(rows, first, count) is given this thread's share of each block in turn: where its rows
  /// are, which point the first of them is, and how many there are. Ends early where the file
  /// cannot be read.
  template <class Work>
  void sweep(Team& team, std::size_t t, const Work& work) {
    for (const Range& block : blocks_) {
      if (t == 0) {
        take();
      }
      team.barrier();
      if (failure_ != nullptr) {
        return;
      }
      const Range share = share_of(block.end - block.begin, t, team.size());
      work(rows_ + share.begin * d_, block.begin + share.begin, share.end - share.begin);
      team.barrier();
      if (t == 0) {
        reader_->let_go();
      }
    }
  }

  /// After a sweep: the seconds for which it waited for rows. Throws what ended it early.
  double finish_sweep() {
    if (failure_ != nullptr) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    return std::exchange(waited_, 0.0);
  }

private:
  void take() {
    const auto begin = std::chrono::steady_clock::now();
    try {
      rows_ = reinterpret_cast<const T*>(reader_->take());
    } catch (...) {
      failure_ = std::current_exception();
    }
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  std::size_t d_;
  std::vector<Range> blocks_; // of points
  std::unique_ptr<ReadAhead> reader_;
  const T* rows_ = nullptr; // of the block that is worked on
  double waited_ = 0.0;     // for it and those before it [s]
  std::exception_ptr failure_;
};

} // namespace clusterbench::simd

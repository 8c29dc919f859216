// Several devices of one process: who does what, and memory that all of them reach.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace clusterbench::cuda {

// ---- ranks
//
// A run on several devices, a thread for each: every rank sums up its own points, an exchange gives
// all of them the totals, and each moves the centroids by itself, to the same bits. The run of a
// rank is that of a variant for one device.

inline constexpr std::size_t kMostRanks = 16;
inline constexpr std::size_t kCountedRows = 0x7fffffff; ///< where counts of all ranks have 32 bits

/// Makes a device the calling thread's current one, for as long as this lives.
class OnDevice {
public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    check(cudaSetDevice(device), "cudaSetDevice");
  }
  ~OnDevice() { static_cast<void>(cudaSetDevice(before_)); } // nobody to tell
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

private:
  int before_ = 0;
};

/// A thread for every rank but the first, which is the caller's; each has its device current.
class RankThreads {
public:
  explicit RankThreads(std::vector<int> devices) : devices_(std::move(devices)) {
    for (std::size_t rank = 1; rank < devices_.size(); ++rank) {
      threads_.emplace_back([this, rank] { serve(rank); });
    }
  }
  ~RankThreads() {
    ending_ = true;
    ++turn_;
    turn_.notify_all();
    std::ranges::for_each(threads_, &std::thread::join);
  }
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  /// Calls work(rank) in every thread, and returns when all are done. Throws what was thrown first,
  /// with the rank's name. Ends the process if one of the others is not back half a minute later,
  /// as nobody can stop its device.
  template <typename Work>
  void run(const Work& work) {
    work_ = [](const void* what, std::size_t rank) { (*static_cast<const Work*>(what))(rank); };
    what_ = &work;
    failed_ = kNone;
    left_ = (std::uint32_t{1} << devices_.size()) - 1;
    ++turn_;
    turn_.notify_all();
    {
      const OnDevice on(devices_[0]);
      call(0);
    }
    for (std::uint32_t left = left_; left != 0; left = left_) {
      left_.wait(left);
    }
    if (failed_ != kNone) {
      rethrow();
    }
  }

private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  void call(std::size_t rank) {
    const std::uint32_t others = ~(std::uint32_t{1} << rank);
    try {
      work_(what_, rank);
    } catch (...) {
      if (std::size_t none = kNone; failed_.compare_exchange_strong(none, rank)) {
        failure_ = std::current_exception();
        expect_back(others);
      }
    }
    left_ &= others;
    left_.notify_all();
  }
  void serve(std::size_t rank) {
    static_cast<void>(cudaSetDevice(devices_[rank])); // what fails fails again in the first call
    for (std::uint64_t seen = 0;;) {
      turn_.wait(seen);
      seen = turn_;
      if (ending_) {
        return;
      }
      call(rank);
    }
  }
  void expect_back(std::uint32_t others) const {
    using namespace std::chrono;
    const auto end = steady_clock::now() + seconds(30);
    while ((left_ & others) != 0 && steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    if (const std::uint32_t left = left_ & others; left != 0) {
      std::fprintf(stderr, "%s; rank %d has not come back since\n", failure().c_str(),
                   std::countr_zero(left));
      std::abort();
    }
  }
  /// What failed first, in words.
  std::string failure() const {
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& error) {
      return (devices_.size() == 1 ? ""
                                   : "rank " + std::to_string(failed_) + " (GPU " +
                                         std::to_string(devices_[failed_]) + "): ") +
             error.what();
    }
  }
  [[noreturn]] void rethrow() const {
    try {
      std::rethrow_exception(failure_);
    } catch (const Refusal&) {
      throw Refusal(failure());
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      throw std::runtime_error(failure());
    }
  }

  std::vector<int> devices_;
  void (*work_)(const void*, std::size_t) = nullptr;
  const void* what_ = nullptr;
  std::exception_ptr failure_; ///< of failed_, which failed first
  std::atomic<std::size_t> failed_ = kNone;
  std::atomic<std::uint32_t> left_ = 0; ///< a bit for each rank at work
  std::atomic<std::uint64_t> turn_ = 0;
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> threads_;
};

/// Tells the observer of a run what the first rank does. While it looks at centroids all ranks
/// stand still: it waits for whole devices, and kernels that wait for one another would never end.
class RankObserver final : public Observer<float> {
public:
  RankObserver(Observer<float>& observer, std::barrier<>& all, bool is_first)
      : observer_(observer), all_(all), is_first_(is_first) {}

  bool recording() const override { return observer_.recording(); }
  void pass(std::span<const float> centroids) override {
    if (!recording()) {
      return;
    }
    check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize for the observer");
    all_.arrive_and_wait(); // no rank works on
    if (is_first_) {
      observer_.pass(centroids);
    }
    all_.arrive_and_wait(); // the observer has seen it
  }
  void begin_phase(std::string_view name, void* stream) override {
    if (is_first_) {
      observer_.begin_phase(name, stream);
    }
  }
  void end_phase(void* stream) override {
    if (is_first_) {
      observer_.end_phase(stream);
    }
  }
  void phase(std::string_view name, double seconds) override {
    if (is_first_) {
      observer_.phase(name, seconds);
    }
  }
  void counter(std::string_view name, double value) override {
    if (is_first_) {
      observer_.counter(name, value);
    }
  }

private:
  Observer<float>& observer_;
  std::barrier<>& all_;
  bool is_first_;
};

/// A rank as its run sees it.
template <typename Exchange>
struct RankMember {
  Exchange* exchange = nullptr;
  std::size_t rank = 0;
  bool has_rows = true;
  unsigned sharing = 1; ///< ranks on its device

  bool has_points() const { return has_rows; }
  unsigned share_device() const { return sharing; }
  template <typename Totals>
  Totals of_all(const Totals& own) const {
    return exchange->of_all(rank, own);
  }
};

/// Run: a variant for one device that is made of a Member, a RankMember<Exchange> or more; it has
/// kPointsOnHost where it wants its points there. Exchange has:
/// prepare(shape, devices, runs), when those of all ranks are prepared; what Member asks of it, in
/// the thread of each rank; path(), in words; kMostRows, of all ranks together; if its kernels
/// wait, late(), see SpinTimeout.
template <typename Run, typename Member, typename Exchange>
class RankedRun final : public ShardedVariant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::size_t ranks = static_cast<std::size_t>(shape.world);
    if (ranks > kMostRanks) {
      return std::to_string(ranks) + " devices, at most " + std::to_string(kMostRanks);
    }
    if (shape.n > Exchange::kMostRows) {
      return "points are counted in 32 bits";
    }
    return Run().refuse(share_of(shape, ceil_div(shape.n, ranks)));
  }

  void prepare_shards(const Shape& shape, std::span<const Shard<float>> shards) override {
    std::vector<int> devices;
    std::ranges::transform(shards, std::back_inserter(devices), &Shard<float>::device);
    std::vector<Run*> runs;
    for (const Shard<float>& shard : shards) {
      Member member;
      member.exchange = &exchange_;
      member.rank = runs.size();
      member.has_rows = !shard.points.rows.empty();
      member.sharing = static_cast<unsigned>(std::ranges::count(devices, shard.device));
      Rank& its = *ranks_.emplace_back(std::make_unique<Rank>(shard.device));
      its.run = std::make_unique<Run>(member);
      runs.push_back(its.run.get());
    }
    threads_ = std::make_unique<RankThreads>(devices);
    threads_->run([&](std::size_t r) { prepare_rank(*ranks_[r], shape, shards[r].points); });
    exchange_.prepare(shape, devices, runs);
  }

  void run_shards(std::span<const Start<float>> starts, std::span<Answer<float>> answers,
                  Observer<float>& observer) override {
    std::barrier<> all(static_cast<std::ptrdiff_t>(ranks_.size()));
    threads_->run([&](std::size_t r) {
      try {
        Rank& rank = *ranks_[r];
        RankObserver seen(observer, all, r == 0);
        Answer<float> answer = answers[r];
        if (answer.labels.empty()) {
          answer.labels = rank.no_label.span();
        }
        rank.run->run(starts[r], answer, seen);
        answers[r].iterations = answer.iterations;
        // What has failed on a device is seen here: by its own rank, before others end their
        // waiting.
        check(cudaStreamSynchronize(kDefaultStream), "the run");
      } catch (const std::exception& error) {
        all.arrive_and_drop(); // nobody waits for it
        if constexpr (requires { exchange_.late(); }) {
          if (const unsigned late = exchange_.late(); late != 0) {
            throw std::runtime_error(std::string(error.what()) +
                                     ": after 20 seconds of waiting for rank " +
                                     std::to_string(late - 1));
          }
        }
        throw;
      }
    });
  }

  std::string chosen_path() const override {
    const std::string own = ranks_.empty() ? "" : ranks_.front()->run->chosen_path();
    return exchange_.path() + (own.empty() ? "" : "; " + own);
  }

private:
  struct Rank {
    explicit Rank(int device_) : device(device_) {}
    ~Rank() {
      const OnDevice on(device); // memory goes back to where it came from
      run.reset();
      no_row = {};
      no_label = {};
    }
    int device;
    std::unique_ptr<Run> run;
    DeviceBuffer<float> no_row;          ///< [d], of a rank without rows
    std::vector<float> no_host_row;      ///< [d], where the variant takes rows in host memory
    DeviceBuffer<std::int32_t> no_label; ///< [1], likewise
  };

  /// One without rows goes through all passes with a row that counts nowhere.
  static void prepare_rank(Rank& rank, const Shape& shape, const Points<float>& points) {
    if (!points.rows.empty()) {
      rank.run->prepare(share_of(shape, points.rows.size() / shape.d), points);
      return;
    }
    rank.no_label = DeviceBuffer<std::int32_t>(1);
    std::span<const float> row;
    if constexpr (requires { Run::kPointsOnHost; }) {
      rank.no_host_row.resize(shape.d);
      row = rank.no_host_row;
    } else {
      rank.no_row = DeviceBuffer<float>(shape.d);
      rank.no_row.zero();
      row = std::as_const(rank.no_row).span();
    }
    rank.run->prepare(share_of(shape, 1), {row, 0});
  }

  static Shape share_of(Shape shape, std::size_t rows) {
    shape.n = std::max<std::size_t>(rows, 1);
    return shape;
  }

  Exchange exchange_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<RankThreads> threads_; ///< goes first
};

// ---- memory of peers: of one device, that the kernels of others write to

/// Ends a kernel with an error that has waited for 20 seconds: the other rank has failed. *late, in
/// locked memory of the host, then says which one: 1 for rank 0.
class SpinTimeout {
public:
  __device__ void lose_some(unsigned* late, unsigned rank) {
    if (++looks_ % 4096 != 0) { // the clock takes longer than a look
      return;
    }
    unsigned long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); // ns
    start_ = start_ == 0 ? now : start_;
    if (now - start_ > 20'000'000'000) {
      *static_cast<volatile unsigned*>(late) = rank + 1;
      __threadfence_system(); // the host sees it, though this context ends
      __trap();
    }
  }

private:
  unsigned long long start_ = 0;
  unsigned looks_ = 0;
};

// Memory that other devices may write to: that of the pool is closed to them.
inline cudaError_t allocate_peer_visible(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes);
}
inline cudaError_t free_peer_visible(void* memory) {
  return cudaFree(memory);
}

template <typename T>
using OpenBuffer = Buffer<T, allocate_peer_visible, free_peer_visible>;
/// On the current device, all zero, and seen so by all others. Throws std::runtime_error.
template <typename T>
OpenBuffer<T> zero_words(std::size_t size) {
  OpenBuffer<T> words(size);
  check(cudaMemset(words.data(), 0, words.bytes()), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return words;
}

/// Lets every device write to the memory of every other. False if one of them cannot.
inline bool enable_peer_access(const std::vector<int>& devices) {
  bool open = std::getenv("CLUSTERBENCH_NO_PEER_WRITES") == nullptr;
  for (const int device : devices) {
    const OnDevice on(device);
    for (const int peer : devices) {
      int can = device == peer ? 1 : 0;
      if (can == 0) {
        check(cudaDeviceCanAccessPeer(&can, device, peer), "cudaDeviceCanAccessPeer");
      }
      if (can != 0 && device != peer) {
        const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
        static_cast<void>(cudaGetLastError()); // that it is enabled already is no fault
        can = error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled ? 1 : 0;
      }
      open = open && can != 0;
    }
  }
  return open;
}

} // namespace clusterbench::cuda

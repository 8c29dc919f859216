// Several devices of one process: who does what, and memory that all of them reach.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <cuda_runtime.h>
#include <exception>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace clusterbench::cuda {

// ---- ranks
//
// A run on several devices, a thread for each: every rank sums up its own points, an exchange gives all
// of them the totals, and each moves the centroids by itself, to the same bits. The run of a rank is that
// of a variant for one device.

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
  explicit RankThreads(std::vector<int> devices)
      : devices_(std::move(devices)), failures_(devices_.size()) {
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

  /// Calls work(rank) in every thread, and returns when all are done. Throws what the first of them
  /// has thrown.
  template <typename Work>
  void run(const Work& work) {
    work_ = [](const void* what, std::size_t rank) { (*static_cast<const Work*>(what))(rank); };
    what_ = &work;
    left_ = threads_.size();
    ++turn_;
    turn_.notify_all();
    {
      const OnDevice on(devices_[0]);
      call(0);
    }
    for (std::size_t left = left_; left > 0; left = left_) {
      left_.wait(left);
    }
    for (const std::exception_ptr& failure : failures_) {
      if (failure) {
        std::rethrow_exception(failure);
      }
    }
  }

private:
  void call(std::size_t rank) {
    try {
      failures_[rank] = nullptr;
      work_(what_, rank);
    } catch (...) {
      failures_[rank] = std::current_exception();
    }
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
      if (--left_ == 0) {
        left_.notify_all();
      }
    }
  }

  std::vector<int> devices_;
  std::vector<std::exception_ptr> failures_;
  void (*work_)(const void*, std::size_t) = nullptr;
  const void* what_ = nullptr;
  std::atomic<std::size_t> left_ = 0;
  std::atomic<std::uint64_t> turn_ = 0;
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> threads_;
};

/// Tells the observer of a run what the first rank does. While it looks at centroids all ranks stand
/// still: it waits for whole devices, and kernels that wait for one another would never end.
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

/// Run: a variant for one device that is made of a Member, a RankMember<Exchange> or more. Exchange has:
/// prepare(shape, devices, runs), when those of all ranks are prepared; what Member asks of it, in the
/// thread of each rank; path(), in words; kMostRows, of all ranks together.
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
      const std::size_t rows = shard.points.rows.size() / shape.d;
      const OnDevice on(shard.device);
      Rank& its = *ranks_.emplace_back(std::make_unique<Rank>(shard.device));
      Member member;
      member.exchange = &exchange_;
      member.rank = runs.size();
      member.has_rows = rows > 0;
      member.sharing = static_cast<unsigned>(std::ranges::count(devices, shard.device));
      its.run = std::make_unique<Run>(member);
      if (rows > 0) {
        its.run->prepare(share_of(shape, rows), shard.points);
      } else { // it goes through all passes with a row that counts nowhere
        its.no_row = DeviceBuffer<float>(shape.d);
        its.no_row.zero();
        its.no_label = DeviceBuffer<std::int32_t>(1);
        its.run->prepare(share_of(shape, 1), {its.no_row.span(), 0});
      }
      runs.push_back(its.run.get());
    }
    exchange_.prepare(shape, devices, runs);
    threads_ = std::make_unique<RankThreads>(devices);
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
      } catch (...) {
        all.arrive_and_drop(); // nobody waits for it
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
    DeviceBuffer<std::int32_t> no_label; ///< [1], likewise
  };

  static Shape share_of(Shape shape, std::size_t rows) {
    shape.n = std::max<std::size_t>(rows, 1);
    return shape;
  }

  Exchange exchange_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::unique_ptr<RankThreads> threads_; ///< goes first
};

// ---- memory of peers
//
// Memory of one device that the kernels of others write to.

/// Ends a kernel with an error that has waited for 20 seconds: the other rank has failed.
class SpinTimeout {
public:
  __device__ void lose_some() {
    if (++looks_ % 4096 != 0) { // the clock takes longer than a look
      return;
    }
    unsigned long long now = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); // ns
    start_ = start_ == 0 ? now : start_;
    if (now - start_ > 20'000'000'000) {
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

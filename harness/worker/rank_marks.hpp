// Where each rank is: notes in memory that the ranks share with the harness. Only read where a cell
// took too long or a rank has ended, to say which rank it was.
#pragma once

#include "impls/contract.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace clusterbench {

/// What a rank does. It writes, the harness reads; not trusted.
struct RankMark {
  std::atomic<std::uint64_t> passes = 0; ///< of the run, finished
  char activity[48] = {};                ///< a request, or a phase of a pass
  std::atomic<bool> has_aborted = false; ///< it has called MPI_Abort

  void set(std::string_view text) {
    const std::size_t length = std::min(text.size(), sizeof activity - 1);
    std::copy_n(text.data(), length, activity);
    activity[length] = 0;
  }
};
static_assert(sizeof(RankMark) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Activities in which a rank waits for the others. Variants have a phase of this name.
inline constexpr std::string_view kExchange = "exchange", kMeeting = "begin";

/// Notes the passes and phases of a run, and passes on what it is told.
template <typename T>
class MarkingObserver final : public Observer<T> {
public:
  MarkingObserver(RankMark& mark, Observer<T>& next) : mark_(mark), next_(next) {
    mark_.passes = 0;
  }

  bool recording() const override { return next_.recording(); }
  void pass(std::span<const T> centroids) override {
    mark_.passes.fetch_add(1, std::memory_order_relaxed);
    next_.pass(centroids);
  }
  void begin_phase(std::string_view name, void* stream) override {
    mark_.set(name);
    next_.begin_phase(name, stream);
  }
  void end_phase(void* stream) override { next_.end_phase(stream); }
  void phase(std::string_view name, double seconds) override { next_.phase(name, seconds); }
  void printed_loss(double loss) override { next_.printed_loss(loss); }
  void counter(std::string_view name, double value) override { next_.counter(name, value); }

private:
  RankMark& mark_;
  Observer<T>& next_;
};

} // namespace clusterbench

// How a long computation of the judge is ended early.
#pragma once

#include <functional>
#include <stdexcept>
#include <utility>

namespace clusterbench {

/// Says whether to stop. Many threads ask it at once, many times a second: it must be cheap, must
/// not throw, and goes on saying yes.
using InterruptTest = std::function<bool()>;

/// What a computation that was told to stop throws, instead of a result.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// While it lives, the loops over rows that this thread starts ask `test`, if it is not empty.
class InterruptScope {
public:
  explicit InterruptScope(const InterruptTest& test)
      : before_(std::exchange(current_, test ? &test : current_)) {}
  ~InterruptScope() { current_ = before_; }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Of the calling thread; nullptr if nobody asks.
  static const InterruptTest* current() { return current_; }

private:
  static inline thread_local const InterruptTest* current_ = nullptr;
  const InterruptTest* before_;
};

} // namespace clusterbench

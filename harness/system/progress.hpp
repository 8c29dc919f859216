// Says how far a campaign is: one line that is rewritten on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace clusterbench {

class Progress {
public:
  explicit Progress(std::size_t cells);

  /// Before a cell: names it, with the time that is left by the pace so far.
  void start(const std::string& cell);
  /// After a cell: its line stays.
  void finish(const std::string& cell, const std::string& outcome);

private:
  using Clock = std::chrono::steady_clock;
  std::size_t cells_;
  std::size_t done_ = 0;
  bool terminal_;
  Clock::time_point begin_ = Clock::now();
};

} // namespace clusterbench

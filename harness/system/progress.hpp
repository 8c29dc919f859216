// Says how far a campaign is: one line that is rewritten on a terminal, a line for each cell
// elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

namespace clusterbench {

/// "40 s", "12 min", "3 h 20 min".
std::string rough_time(std::chrono::duration<double> time);

class Progress {
public:
  explicit Progress(std::size_t cells);
  ~Progress(); ///< takes the line away
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Before a cell: names it, with the time that is left by the pace so far.
  void start(const std::string& cell);
  /// After a cell. `word` is how it ended: on a terminal those other than "ok" and "same" are
  /// counted in the line. `figures` follow it where every cell has a line. Why a cell failed is for
  /// the report: it is said once.
  void finish(const std::string& cell, const std::string& word, const std::string& figures = "");

  /// So many more are to come.
  void expect(std::size_t more) { cells_ += more; }

private:
  using Clock = std::chrono::steady_clock;
  std::size_t cells_;
  std::size_t done_ = 0;
  bool terminal_;
  Clock::time_point begin_ = Clock::now();
  std::map<std::string, std::size_t> ends_; ///< how many cells ended so
};

} // namespace clusterbench

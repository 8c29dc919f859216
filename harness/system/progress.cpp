#include "harness/system/progress.hpp"

#include "harness/system/messages.hpp"
#include "harness/system/terminal.hpp"

#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

namespace clusterbench {

std::string rough_time(std::chrono::duration<double> time) {
  constexpr double kMinute = 60.0, kHour = 3600.0;
  const double seconds = time.count();
  if (seconds < 1.5 * kMinute) {
    return fmt::format("{:.0f} s", std::ceil(seconds));
  }
  const auto minutes = static_cast<long>(std::round(seconds / kMinute));
  return seconds < 1.5 * kHour ? fmt::format("{} min", minutes)
                               : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

Progress::Progress(std::size_t cells) : cells_(cells), terminal_(can_erase_lines(STDERR_FILENO)) {}

Progress::~Progress() {
  erase_line();
}

void Progress::start(const std::string& cell) {
  if (!terminal_) {
    return;
  }
  std::string line = fmt::format("[{}/{}]", done_ + 1, cells_);
  if (done_ > 0) {
    const std::chrono::duration<double> passed = Clock::now() - begin_;
    line += fmt::format(" about {} left",
                        rough_time(passed / done_ * static_cast<double>(cells_ - done_)));
  }
  for (const auto& [word, count] : ends_) {
    line += fmt::format(", {} {}", count, word);
  }
  // The last column stays empty: some terminals begin a new line once it is written.
  line += fmt::format(": {}", cell);
  draw_line(shortened(line, columns_of(STDERR_FILENO) - 1));
}

void Progress::finish(const std::string& cell, const std::string& word,
                      const std::string& figures) {
  ++done_;
  if (word != "ok" && word != "same") {
    ++ends_[word];
  }
  if (!terminal_) {
    say("[{}/{}] {}: {}{}\n", done_, cells_, cell, word, figures);
  }
}

} // namespace clusterbench

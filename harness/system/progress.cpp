#include "harness/system/progress.hpp"

#include "harness/system/messages.hpp"

#include <cstdio>
#include <cstdlib>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>

namespace clusterbench {

namespace {

// A line that is written again and again needs a terminal that can erase it.
bool can_erase_lines() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

} // namespace

Progress::Progress(std::size_t cells) : cells_(cells), terminal_(can_erase_lines()) {}

void Progress::start(const std::string& cell) {
  if (!terminal_) {
    return;
  }
  std::string left = "?";
  if (done_ > 0) {
    const auto per_cell = (Clock::now() - begin_) / done_;
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(per_cell * (cells_ - done_));
    left = fmt::format("{:%M:%S}", seconds);
  }
  say("\r\033[K[{}/{}] {} ... about {} left", done_ + 1, cells_, cell, left);
  std::fflush(stderr);
}

void Progress::finish(const std::string& cell, const std::string& outcome) {
  ++done_;
  say("{}[{}/{}] {}: {}\n", terminal_ ? "\r\033[K" : "", done_, cells_, cell, outcome);
}

} // namespace clusterbench

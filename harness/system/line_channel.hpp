// Lines of text over a stream socket between two processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace clusterbench {

/// One end. It does not own the descriptor.
class LineChannel {
public:
  enum class Ending { line, closed, late, interrupted, too_long };
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20; ///< bytes, with a timeout

  explicit LineChannel(int descriptor) : descriptor_(descriptor) {}

  /// Sends the line and a newline. Throws std::runtime_error if the other end is gone.
  void write_line(const std::string& line) const;

  /// Waits for a whole line; false at the end of the stream.
  bool read_line(std::string& line);

  /// The same, until the deadline or a signal of interrupt_signal().
  Ending read_line(std::string& line, std::chrono::duration<double> timeout);

private:
  bool take_line(std::string& line);

  int descriptor_;
  std::string unread_;
};

} // namespace clusterbench

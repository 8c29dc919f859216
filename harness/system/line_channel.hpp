// Lines of text over a stream socket between two processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
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

  /// What has come behind the last whole line.
  const std::string& rest() const { return unread_; }

  /// What came first of several channels: a line, or the end of one of them.
  struct Received {
    Ending ending = Ending::late;
    std::size_t channel = 0; ///< its index; of no meaning where the ending is late or interrupted
    std::string line;
  };
  /// Waits for a whole line from any of the channels, as read_line() does for one.
  static Received read_line_of_any(std::span<LineChannel> channels,
                                   std::chrono::duration<double> timeout);

private:
  bool take_line(std::string& line);

  int descriptor_;
  std::string unread_;
};

} // namespace clusterbench

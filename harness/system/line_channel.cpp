#include "harness/system/line_channel.hpp"

#include "harness/system/process.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace clusterbench {

void LineChannel::write_line(const std::string& line) const {
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t got = send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw std::runtime_error(fmt::format("the other process is gone: {}", std::strerror(errno)));
    }
    sent += static_cast<std::size_t>(got);
  }
}

bool LineChannel::take_line(std::string& line) {
  const std::size_t end = unread_.find('\n');
  if (end == std::string::npos) {
    return false;
  }
  line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return true;
}

bool LineChannel::read_line(std::string& line) {
  char buffer[4096];
  while (!take_line(line)) {
    const ssize_t got = read(descriptor_, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return false;
    }
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
  return true;
}

LineChannel::Ending LineChannel::read_line(std::string& line,
                                           std::chrono::duration<double> timeout) {
  Received received = read_line_of_any({this, 1}, timeout);
  line = std::move(received.line);
  return received.ending;
}

LineChannel::Received LineChannel::read_line_of_any(std::span<LineChannel> channels,
                                                    std::chrono::duration<double> timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPollMilliseconds = 250; // rarely enough not to disturb what is being measured
  const auto deadline = Clock::now() + timeout;
  Received received;
  std::vector<pollfd> readable(channels.size());
  char buffer[4096];
  for (;;) {
    for (std::size_t i = 0; i < channels.size(); ++i) {
      if (channels[i].take_line(received.line)) {
        received.ending = Ending::line;
        received.channel = i;
        return received;
      }
      readable[i] = {channels[i].descriptor_, POLLIN, 0};
    }
    const int ready = poll(readable.data(), readable.size(), kPollMilliseconds);
    if (interrupt_signal() != 0) {
      received.ending = Ending::interrupted;
      return received;
    }
    if (ready <= 0) {
      if (Clock::now() > deadline) {
        return received;
      }
      continue;
    }
    for (std::size_t i = 0; i < channels.size(); ++i) {
      if (readable[i].revents == 0) {
        continue;
      }
      received.channel = i;
      const ssize_t got = read(channels[i].descriptor_, buffer, sizeof buffer);
      if (got <= 0) {
        received.ending = Ending::closed;
        return received;
      }
      channels[i].unread_.append(buffer, static_cast<std::size_t>(got));
      if (channels[i].unread_.size() > kLongestLine) {
        received.ending = Ending::too_long;
        return received;
      }
    }
  }
}

} // namespace clusterbench

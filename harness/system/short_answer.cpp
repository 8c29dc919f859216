#include "harness/system/short_answer.hpp"

#include "harness/system/line_channel.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <span>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace clusterbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kToEnd{1}; // after the answer, by itself
constexpr const char* kNoReply = "it gives no reply";
constexpr std::size_t kMostBytes = LineChannel::kLongestLine;
constexpr std::size_t kMostWords = 500; // bytes of its last line

// What a program writes. Of its standard error only the last line is kept, so that it may write as
// much there as it likes.
class Words {
public:
  /// errors: the end of a pipe; -1: standard error is not heard apart.
  Words(int replies, int errors)
      : channels_{LineChannel(replies), LineChannel(errors)}, errors_(errors),
        hears_errors_(errors >= 0) {}

  /// The next line of its replies, or why there is none.
  LineChannel::Ending read_line(std::string& line, Clock::time_point deadline) {
    for (;;) {
      // A program that never pauses must not outrun the deadline.
      if (Clock::now() > deadline) {
        return LineChannel::Ending::late;
      }
      LineChannel::Received received = LineChannel::read_line_of_any(
          std::span(channels_).first(hears_errors_ ? 2 : 1), deadline - Clock::now());
      if (received.channel == kReplies || received.ending == LineChannel::Ending::late ||
          received.ending == LineChannel::Ending::interrupted) {
        line = std::move(received.line);
        return received.ending;
      }
      take_error(received);
    }
  }

  /// The last line of its standard error, when its replies have ended; or empty.
  std::string last_error(Clock::time_point deadline) {
    while (hears_errors_ && Clock::now() < deadline) {
      LineChannel::Received received = LineChannel::read_line_of_any(
          std::span(channels_).subspan(kErrors), deadline - Clock::now());
      if (received.ending == LineChannel::Ending::late ||
          received.ending == LineChannel::Ending::interrupted) {
        break;
      }
      take_error(received);
    }
    return last_error_;
  }

private:
  static constexpr std::size_t kReplies = 0, kErrors = 1;

  void take_error(LineChannel::Received& received) {
    LineChannel& errors = channels_[kErrors];
    hears_errors_ = received.ending != LineChannel::Ending::closed;
    std::string text =
        received.ending == LineChannel::Ending::line ? std::move(received.line) : errors.rest();
    if (received.ending == LineChannel::Ending::too_long) {
      errors = LineChannel(errors_); // goes on behind it
    }
    text.erase(text.find_last_not_of(" \t\r") + 1);
    if (!text.empty()) {
      last_error_ = text.substr(text.size() - std::min(text.size(), kMostWords));
    }
  }

  std::array<LineChannel, 2> channels_;
  int errors_;
  bool hears_errors_; ///< until it has closed it
  std::string last_error_;
};

ShortAnswer read_answer(Words& words, const std::function<bool(const std::string& line)>& is_answer,
                        std::chrono::duration<double> patience) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  std::string line;
  for (std::size_t bytes = 0; bytes <= kMostBytes; bytes += line.size() + 1) {
    switch (words.read_line(line, deadline)) {
    case LineChannel::Ending::line:
      if (is_answer(line)) {
        return {line, ""};
      }
      break;
    case LineChannel::Ending::closed:
      return {"", kNoReply};
    case LineChannel::Ending::late:
      return {"", fmt::format("it gives no reply within {:g} s", patience.count())};
    case LineChannel::Ending::interrupted:
      return {"", "interrupted"};
    case LineChannel::Ending::too_long:
      bytes = kMostBytes;
      break;
    }
  }
  return {"", fmt::format("it writes more than {} bytes and no reply", kMostBytes)};
}

// Of one that has closed its channel: how it ended, and what it said last.
std::string why_no_reply(const ProcessOutcome& end, const std::string& last_error) {
  std::string why = kNoReply;
  if (end.kind == ProcessOutcome::Kind::signalled) {
    why = fmt::format("signal {} ({}) ended it before it gave a reply", end.signal,
                      strsignal(end.signal));
  } else if (end.kind == ProcessOutcome::Kind::exited && end.exit_code != 0) {
    why = fmt::format("exited with code {}", end.exit_code);
  }
  return last_error.empty() ? why : fmt::format("{}: {}", why, last_error);
}

} // namespace

ShortAnswer ask_shortly(const ShortQuestion& question,
                        const std::function<bool(const std::string& line)>& is_answer) {
  const DefersInterrupts until_it_has_ended;
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw std::runtime_error(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  ProcessOptions options;
  options.arguments = question.command;
  options.environment = question.environment;
  options.inherited_descriptors = question.descriptors;
  options.input_descriptor = sockets[1];
  options.reply_descriptor = sockets[1];
  int errors[2] = {-1, sockets[1]}; // a pipe: a shell's /dev/stderr cannot be a socket
  if (!question.hears_errors && pipe2(errors, O_CLOEXEC) != 0) {
    errors[1] = -1; // its words are not worth more than its answer
  }
  options.output_descriptor = errors[1];
  const auto close_its_ends = [&] {
    close(sockets[1]);
    if (errors[0] >= 0) {
      close(errors[1]);
    }
  };
  const auto close_ours = [&] {
    close(sockets[0]);
    if (errors[0] >= 0) {
      close(errors[0]);
    }
  };
  int pid = -1;
  try {
    pid = start_process(options);
  } catch (const std::runtime_error& error) {
    close_its_ends();
    close_ours();
    return {"", error.what()};
  }
  close_its_ends();
  try {
    LineChannel(sockets[0]).write_line(question.text);
  } catch (const std::runtime_error&) { // it does not read, or is gone: what it has said counts
  }
  shutdown(sockets[0], SHUT_WR);
  Words words(sockets[0], errors[0]);
  ShortAnswer answer = read_answer(words, is_answer, question.patience);
  const bool has_closed = answer.failure == kNoReply;
  const std::string last_error = has_closed ? words.last_error(Clock::now() + kToEnd) : "";
  close_ours();
  const ProcessOutcome end =
      end_process(pid, answer.failure.empty() || has_closed ? kToEnd : std::chrono::seconds(0));
  if (has_closed) {
    answer.failure = why_no_reply(end, last_error);
  }
  return answer;
}

} // namespace clusterbench

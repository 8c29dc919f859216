#include "harness/system/short_answer.hpp"

#include "harness/system/line_channel.hpp"
#include "harness/system/process.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kToEnd{1}; // after the answer, by itself
constexpr const char* kNoReply = "it gives no reply";
constexpr std::size_t kMostBytes = LineChannel::kLongestLine;

ShortAnswer read_answer(LineChannel& channel,
                        const std::function<bool(const std::string& line)>& is_answer,
                        std::chrono::duration<double> patience) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  std::string line;
  for (std::size_t bytes = 0; bytes <= kMostBytes; bytes += line.size() + 1) {
    // A program that never pauses must not outrun the deadline.
    switch (Clock::now() > deadline ? LineChannel::Ending::late
                                    : channel.read_line(line, deadline - Clock::now())) {
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
  options.output_descriptor = question.hears_errors ? sockets[1] : -1;
  int pid = -1;
  try {
    pid = start_process(options);
  } catch (const std::runtime_error& error) {
    close(sockets[0]);
    close(sockets[1]);
    return {"", error.what()};
  }
  close(sockets[1]);
  LineChannel channel(sockets[0]);
  try {
    channel.write_line(question.text);
  } catch (const std::runtime_error&) { // it does not read, or is gone: what it has said counts
  }
  shutdown(sockets[0], SHUT_WR);
  ShortAnswer answer = read_answer(channel, is_answer, question.patience);
  close(sockets[0]);
  const bool has_closed = answer.failure == kNoReply;
  const ProcessOutcome end =
      end_process(pid, answer.failure.empty() || has_closed ? kToEnd : std::chrono::seconds(0));
  if (has_closed && end.kind == ProcessOutcome::Kind::signalled) {
    answer.failure = fmt::format("signal {} ({}) ended it before it gave a reply", end.signal,
                                 strsignal(end.signal));
  }
  return answer;
}

} // namespace clusterbench

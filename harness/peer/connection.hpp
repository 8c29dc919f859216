// A running program that holds variants: requests go to its standard input, replies come from its
// standard output, one line of JSON each.
#pragma once

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/types.h>
#include <vector>

namespace clusterbench {

/// Why a program could not do what it was asked, with the ledger's word for it: refused,
/// unavailable, error, out_of_memory, crashed, timed_out.
class PeerFailure : public std::runtime_error {
public:
  PeerFailure(std::string status, const std::string& message)
      : std::runtime_error(message), status_(std::move(status)) {}
  const std::string& status() const { return status_; }

private:
  std::string status_;
};

/// The program ends with this object, and is killed with the process group of ours.
class PeerConnection {
public:
  /// Starts the program; the first of `command` is looked for on the PATH. It may use so many
  /// threads. Throws PeerFailure.
  PeerConnection(std::vector<std::string> command, int threads);
  ~PeerConnection();
  PeerConnection(const PeerConnection&) = delete;
  PeerConnection& operator=(const PeerConnection&) = delete;

  /// Sends {"request": name, ...} and returns the reply, {"reply": name, ...}. Lines that are no
  /// replies, printed by a library say, are passed on to standard error. Without a timeout it is
  /// the caller's parent who ends a program that hangs. Throws PeerFailure.
  nlohmann::json ask(const nlohmann::json& request,
                     std::optional<std::chrono::duration<double>> timeout = {});

  std::size_t peak_rss_bytes() const { return peak_rss_bytes_; } ///< as last seen
  int threads() const;                                           ///< that it has now

private:
  void write(const std::string& line);
  std::string read_line(std::optional<std::chrono::steady_clock::time_point> deadline);
  void look_at_memory();
  [[noreturn]] void fail_ended();

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string unread_;
  std::size_t peak_rss_bytes_ = 0;
};

} // namespace clusterbench

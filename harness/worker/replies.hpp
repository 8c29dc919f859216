// What a worker answers, line by line, and whether it can be used. A worker is not trusted.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

namespace clusterbench {

/// Why a worker did not do what it was asked, with the ledger's word for it: refused, unavailable,
/// error, out_of_memory, crashed, timed_out, interrupted, cheated.
class WorkerFailure : public std::runtime_error {
public:
  WorkerFailure(std::string status, const std::string& message, std::string last_words = "")
      : std::runtime_error(message), status_(std::move(status)),
        last_words_(std::move(last_words)) {}
  const std::string& status() const { return status_; }
  /// What a process that crashed or was late had printed last.
  const std::string& last_words() const { return last_words_; }

private:
  std::string status_, last_words_;
};

/// The reply to the request `asked` in a line that a worker wrote; nothing if the line is no reply.
/// Its known fields are what docs/peers.md says, so that they can be read without a check. Throws
/// WorkerFailure: the worker says that it cannot do it, it answers another request, or a field is
/// odd.
std::optional<nlohmann::json> reply_in(const std::string& line, const std::string& asked);

} // namespace clusterbench

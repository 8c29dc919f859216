// Shows whether a ledger is as it was written: every line carries a hash over itself and the hash
// of the line before. It keeps nobody from computing all hashes again, nor from taking lines off
// the end.
#pragma once

#include <string>
#include <string_view>

namespace clusterbench {

/// A line of a ledger, taken apart.
struct ChainedLine {
  std::string body;  ///< the line's JSON without its member `chain`
  std::string chain; ///< what that member says; empty if there is none
};

/// What `chain` of a line must be: SHA-256 of the chain of the line before it (empty for the first
/// line) and of the line's body.
std::string chain_after(std::string_view previous, std::string_view body);

/// The line with its chain as the last member. body: an object with at least one member.
std::string with_chain(std::string_view body, std::string_view chain);

/// Undoes with_chain(), without reading the JSON. A line of another form is read, and its body is
/// the canonical JSON: sorted keys, no spaces. Throws nlohmann::json::exception if it is none.
ChainedLine take_apart(std::string_view line);

} // namespace clusterbench

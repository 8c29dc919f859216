#include "harness/ledger/chain.hpp"

#include "datasets/sha256.hpp"

#include <nlohmann/json.hpp>
#include <span>

namespace clusterbench {
namespace {

constexpr std::string_view kBefore = ",\"chain\":\"";
constexpr std::string_view kBehind = "\"}";
constexpr std::size_t kDigits = 64;

} // namespace

std::string chain_after(std::string_view previous, std::string_view body) {
  std::string text(previous);
  text += body;
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

std::string with_chain(std::string_view body, std::string_view chain) {
  std::string line(body.substr(0, body.size() - 1)); // without its closing bracket
  line.append(kBefore).append(chain).append(kBehind);
  return line;
}

ChainedLine take_apart(std::string_view line) {
  constexpr std::size_t kTail = kBefore.size() + kDigits + kBehind.size();
  if (line.size() > kTail && line.ends_with(kBehind)) {
    const std::string_view tail = line.substr(line.size() - kTail);
    if (tail.starts_with(kBefore)) {
      return {std::string(line.substr(0, line.size() - kTail)) + '}',
              std::string(tail.substr(kBefore.size(), kDigits))};
    }
  }
  auto json = nlohmann::json::parse(line);
  ChainedLine parts;
  if (json.is_object()) {
    if (const auto chain = json.find("chain"); chain != json.end()) {
      parts.chain = chain->is_string() ? chain->get<std::string>() : std::string();
      json.erase(chain);
    }
  }
  parts.body = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return parts;
}

} // namespace clusterbench

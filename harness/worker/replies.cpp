#include "harness/worker/replies.hpp"

#include "harness/system/nesting.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 100; // bytes of a line

// Such as one that holds NaN, as many JSON libraries write it. Waiting for a better one would end
// with the timeout.
bool looks_like_a_reply(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin != std::string::npos && line[begin] == '{' &&
         line.find("\"reply\"") != std::string::npos;
}

bool is_figure(const json& value) {
  return value.is_number() || value.is_null(); // null: not finite
}

void check_figures_of(const json& reply, const char* name,
                      bool (json::*is_right)() const noexcept) {
  const auto field = reply.find(name);
  if (field != reply.end() && !(((*field).*is_right)() && std::ranges::all_of(*field, is_figure))) {
    throw WorkerFailure("error", fmt::format("its reply's `{}` holds something but numbers", name));
  }
}

// Rows hold milliseconds, and JSON no infinity.
bool is_time(const json& value) {
  return value.is_number() && value.get<double>() >= 0.0 &&
         std::isfinite(value.get<double>() * 1e3);
}

void check_phases(const json& reply) {
  const auto phases = reply.find("phases");
  if (phases == reply.end()) {
    return;
  }
  for (const auto& [name, seconds] : phases->items()) {
    if (!is_time(seconds)) {
      throw WorkerFailure("error", fmt::format("its reply's phase `{}` is no number of seconds",
                                               name.substr(0, kShown)));
    }
  }
}

// Fields that a reply may leave out.
void check_fields(const json& reply) {
  for (const char* name : {"context_s", "seconds", "upload_s", "prepare_s", "run_s", "download_s",
                           "began", "prepared", "ended"}) {
    if (const auto field = reply.find(name); field != reply.end() && !is_time(*field)) {
      throw WorkerFailure("error", fmt::format("its reply's `{}` is no number of seconds", name));
    }
  }
  if (const auto path = reply.find("chosen_path"); path != reply.end() && !path->is_string()) {
    throw WorkerFailure("error", "its reply's `chosen_path` is no text");
  }
  if (const auto versions = reply.find("versions");
      versions != reply.end() && !versions->is_object()) {
    throw WorkerFailure("error", "its reply's `versions` is no object");
  }
  check_figures_of(reply, "counters", &json::is_object);
  check_figures_of(reply, "phases", &json::is_object);
  check_phases(reply);
  check_figures_of(reply, "printed_loss", &json::is_array);
}

void check_figures(const json& reply) {
  const auto is = [&](const char* name, bool (json::*is_right)() const noexcept) {
    return reply.contains(name) && (reply.at(name).*is_right)();
  };
  if (!is("seconds", &json::is_number) || !is("iterations", &json::is_number_unsigned)) {
    throw WorkerFailure("error", "its reply lacks the numbers `seconds` and `iterations`");
  }
}

} // namespace

std::optional<json> reply_in(const std::string& line, const std::string& asked) {
  json reply = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (reply.is_discarded() && looks_like_a_reply(line)) {
    throw WorkerFailure("error", fmt::format("its reply is not JSON: {}", line.substr(0, kShown)));
  }
  if (!reply.is_object() || !reply.contains("reply") || !reply.at("reply").is_string()) {
    return std::nullopt;
  }
  const std::string answered = reply.at("reply");
  if (answered == asked) {
    if (nests_too_deeply(reply)) {
      throw WorkerFailure("error", "its reply is nested too deeply");
    }
    if (asked == "run" || asked == "whole") {
      check_figures(reply);
    }
    check_fields(reply);
    return reply;
  }
  if (answered == "unavailable" && asked != "load") {
    throw WorkerFailure("error", fmt::format("it says that it is unavailable to the request "
                                             "\"{}\", and not to \"load\"",
                                             asked));
  }
  const char* const reason =
      answered == "refused" || answered == "unavailable" ? "reason" : "message";
  if (answered == "refused" || answered == "unavailable" || answered == "error" ||
      answered == "out_of_memory" || answered == "cheated") {
    const json said = reply.value(reason, json());
    throw WorkerFailure(answered, said.is_string() ? said.get<std::string>() : "it says no more");
  }
  throw WorkerFailure("cheated", fmt::format("a reply \"{}\" came to the request \"{}\": something "
                                             "but the harness has written to its channel",
                                             answered, asked));
}

} // namespace clusterbench

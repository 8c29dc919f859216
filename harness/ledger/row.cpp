#include "harness/ledger/row.hpp"

#include "harness/ledger/json_text.hpp"
#include "harness/machine/environment.hpp"
#include "harness/system/nesting.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unordered_map>

namespace clusterbench {
namespace {

using json_text::Malformed;
using nlohmann::json;

int small(std::string_view value) {
  return static_cast<int>(json_text::count(value));
}

OwnStart own_start_of(std::string_view value) {
  OwnStart own;
  for (const auto& [key, text] : json_text::members(value)) {
    if (key == "ms") {
      own.ms = json_text::number(text);
    } else if (key == "iterations") {
      own.iterations = json_text::number(text);
    }
  }
  return own;
}

std::vector<WholeAnswer> whole_of(std::string_view value) {
  std::vector<WholeAnswer> answers;
  for (const auto& element : json_text::members(value)) {
    WholeAnswer& answer = answers.emplace_back();
    for (const auto& [key, text] : json_text::members(element.value)) {
      if (key == "ms") {
        answer.ms = json_text::number(text);
      } else if (key == "run_ms") {
        answer.run_ms = json_text::number(text);
      } else if (key == "cpu_ms") {
        answer.cpu_ms = json_text::number(text);
      } else if (key == "iterations") {
        answer.iterations = json_text::number(text);
      } else if (key == "start") {
        answer.start = json_text::count(text);
      }
    }
  }
  return answers;
}

// The kind of a value that is read when it is asked for; null is what is not known.
void need(std::string_view value, std::string_view begin, const char* wanted) {
  if (!value.starts_with(begin) && value != "null") {
    throw Malformed(fmt::format("{} is no {}", value.substr(0, 40), wanted));
  }
}

std::size_t limit_of(std::string_view value) {
  need(value, "{", "object");
  for (const auto& [key, text] : json_text::members(value)) {
    if (key == "limit_bytes") {
      return json_text::count(text);
    }
  }
  return 0;
}

std::string limits_text(std::size_t memory, std::size_t device_memory) {
  const std::string host = memory == 0 ? "unlimited" : fmt::format("{} bytes", memory);
  return device_memory == 0 ? host : fmt::format("{}, {} bytes of a GPU", host, device_memory);
}

// What of it is read later must be what it is taken for.
void read_problem(Row& row, std::string_view value) {
  row.identity.definition = definition_of(value);
  for (const auto& [key, text] : json_text::members(value)) {
    try {
      if (key == "hash") {
        row.identity.hash = json_text::string(text);
      } else if (key == "id" || key == "data_sha256" || key == "weights_sha256") {
        static_cast<void>(json_text::string(text));
      } else if (key == "n" || key == "d") {
        static_cast<void>(json_text::count(text));
      }
    } catch (const Malformed& error) {
      throw Malformed(fmt::format("its {}: {}", key, error.what()));
    }
  }
}

void check_phases(std::string_view value) {
  need(value, "{", "object");
  if (value == "null") {
    return;
  }
  for (const json_text::Member& phase : json_text::members(value)) {
    static_cast<void>(json_text::number(phase.value));
  }
}

void check_verification(std::string_view value) {
  need(value, "[", "list");
  if (value == "null") {
    return;
  }
  for (const json_text::Member& verdict : json_text::members(value)) {
    need(verdict.value, "{", "object");
  }
}

using Reader = void (*)(Row&, std::string_view);

const std::unordered_map<std::string_view, Reader>& readers() {
  using View = std::string_view;
  namespace text = json_text;
  static const std::unordered_map<View, Reader> kReaders = {
      {"table", [](Row& row, View value) { row.table = text::string(value); }},
      {"name", [](Row& row, View value) { row.name = text::string(value); }},
      {"variant", [](Row& row, View value) { row.variant = text::string(value); }},
      {"precision", [](Row& row, View value) { row.precision = text::string(value); }},
      {"device", [](Row& row, View value) { row.device = text::string(value); }},
      {"time", [](Row& row, View value) { row.time = text::string(value); }},
      {"key", [](Row& row, View value) { row.key = text::string(value); }},
      {"status", [](Row& row, View value) { row.status = text::string(value); }},
      {"message", [](Row& row, View value) { row.message = text::string(value); }},
      {"threads", [](Row& row, View value) { row.threads = small(value); }},
      {"round", [](Row& row, View value) { row.round = small(value); }},
      {"gpus", [](Row& row, View value) { row.gpus = small(value); }},
      {"ranks", [](Row& row, View value) { row.ranks = small(value); }},
      {"samples_ms", [](Row& row, View value) { row.samples_ms = text::numbers(value); }},
      {"warm_up_samples_ms",
       [](Row& row, View value) { row.warm_up_samples_ms = text::numbers(value); }},
      {"sample_starts", [](Row& row, View value) { row.sample_starts = text::counts(value); }},
      {"sample_iterations",
       [](Row& row, View value) { row.sample_iterations = text::counts(value); }},
      {"cpu_ms", [](Row& row, View value) { row.cpu_ms = text::numbers(value); }},
      {"fixed_work_us", [](Row& row, View value) { row.fixed_work_us = text::numbers(value); }},
      {"other_tasks", [](Row& row, View value) { row.other_tasks = text::numbers(value); }},
      {"gpus_used_by_others",
       [](Row& row, View value) { row.gpus_used_by_others = text::number(value); }},
      {"whole", [](Row& row, View value) { row.whole = whole_of(value); }},
      {"own_start", [](Row& row, View value) { row.own_start = own_start_of(value); }},
      {"unsandboxed", [](Row& row, View value) { row.unsandboxed = text::boolean(value); }},
      {"approximate_within",
       [](Row& row, View value) { row.approximate_within = text::number(value); }},
      {"problem", read_problem},
      {"memory", [](Row& row, View value) { row.memory_limit = limit_of(value); }},
      {"device_memory", [](Row& row, View value) { row.device_memory_limit = limit_of(value); }},
      {"phases_ms", [](Row&, View value) { check_phases(value); }},
      {"verification", [](Row&, View value) { check_verification(value); }},
      {"trace", [](Row&, View value) { need(value, "{", "object"); }},
      {"counters", [](Row&, View value) { need(value, "{", "object"); }},
      {"submission", [](Row&, View value) { need(value, "{", "object"); }},
      {"gbench_context", [](Row&, View value) { need(value, "{", "object"); }},
      {"limit", [](Row&, View value) { need(value, "\"", "text"); }}};
  return kReaders;
}

// What every reader relies on.
void check(const Row& row) {
  const std::array needed = {
      std::pair("table", &row.table),     std::pair("name", &row.name),
      std::pair("variant", &row.variant), std::pair("precision", &row.precision),
      std::pair("status", &row.status),   std::pair("key", &row.key)};
  for (const auto& [name, value] : needed) {
    if (value->empty()) {
      throw Malformed(fmt::format("has no {}", name));
    }
  }
  if (row.threads == 0 || row.round == 0) {
    throw Malformed(row.round == 0 ? "has no round" : "has no threads");
  }
  // There is no median of no samples, and no pass without a time.
  const std::size_t samples = row.samples_ms.size();
  if (row.sample_starts.size() != samples || row.sample_iterations.size() != samples) {
    throw Malformed("has samples_ms, sample_starts and sample_iterations of different lengths");
  }
  for (const auto& [name, around] :
       {std::pair{"cpu_ms", &row.cpu_ms}, std::pair{"fixed_work_us", &row.fixed_work_us},
        std::pair{"other_tasks", &row.other_tasks}}) {
    if (!around->empty() && around->size() != samples) {
      throw Malformed(fmt::format("has samples_ms and {} of different lengths", name));
    }
  }
  if (row.ok() && samples == 0) {
    throw Malformed("is ok without a sample in samples_ms");
  }
}

std::string_view value_of(std::string_view text, std::string_view name) {
  const auto members = json_text::members(text);
  const auto found = std::ranges::find(members, name, &json_text::Member::key);
  return found == members.end() ? std::string_view() : found->value;
}

} // namespace

Header::Header(json json, std::string path) : line(std::move(json)), ledger(std::move(path)) {
  const auto need = [&](const char* name, bool (nlohmann::json::*is_right)() const noexcept) {
    if (!line.contains(name)) {
      throw Malformed(fmt::format("has no {}", name));
    }
    if (!(line.at(name).*is_right)()) {
      throw Malformed(fmt::format("has an odd {}", name));
    }
  };
  need("environment_hash", &nlohmann::json::is_string);
  need("provenance", &nlohmann::json::is_object);
  need("limits", &nlohmann::json::is_object);
  line.at("environment_hash").get_to(environment_hash);
  try {
    intact_ = environment_hash == clusterbench::environment_hash(line.at("provenance"));
  } catch (const nlohmann::json::exception&) { // it lacks what the hash is of
    throw Malformed("has an odd provenance");
  }
  if (!line.at("provenance").at("gpu").value("devices", nlohmann::json()).is_array()) {
    throw Malformed("has an odd provenance: gpu.devices is no list");
  }
  const nlohmann::json of_processors = line.at("limits").value("cpu", nlohmann::json::array());
  if (!std::ranges::all_of(of_processors, [](const nlohmann::json& each) {
        return each.is_object() && each.contains("threads");
      })) {
    throw Malformed("has odd limits: those of cpu name no threads");
  }
  if (line.contains("starts_seed")) {
    need("starts_seed", &nlohmann::json::is_number_integer);
    starts_seed = line.at("starts_seed").get<std::uint64_t>();
  }
}

Row::Row(std::string line, std::shared_ptr<const Header> of)
    : header(std::move(of)), text(std::move(line)) {
  bool has_problem = false;
  for (const json_text::Member& member : json_text::members(text)) {
    has_problem = has_problem || member.key == "problem";
    const auto reader = readers().find(member.key);
    if (reader == readers().end()) {
      continue;
    }
    try {
      reader->second(*this, member.value);
    } catch (const Malformed& error) {
      throw Malformed(fmt::format("has an odd {}: {}", member.key, error.what()));
    }
  }
  if (ok() || memory_limit > 0 || device_memory_limit > 0) {
    // else it may have ended before it said so
    identity.limits = limits_text(memory_limit, device_memory_limit);
  }
  check(*this);
  if (!has_problem) {
    throw Malformed("has no problem");
  }
}

Row::Row(const json& line, std::shared_ptr<const Header> of)
    : Row(text_of_cell(line), std::move(of)) {}

double Row::warm_up_share() const {
  const auto dropped = static_cast<double>(warm_up_samples_ms.size());
  return dropped == 0.0 ? 0.0 : dropped / (dropped + static_cast<double>(samples_ms.size()));
}

json Row::field(std::string_view field_name) const {
  const std::string_view value = value_of(text, field_name);
  return value.empty() ? json() : json::parse(value);
}

std::optional<double> Row::number(std::string_view field_name) const {
  const json value = field(field_name);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

ExitCode exit_code_of(std::string_view status) {
  if (status == "wrong" || status == "cheated") {
    return ExitCode::wrong_result;
  }
  if (status == "interrupted") {
    return ExitCode::interrupted;
  }
  // What a variant declares it cannot do, and what this machine lacks, is no failure.
  const bool fine = status == "ok" || status == "refused" || status == "unavailable";
  return fine ? ExitCode::ok : ExitCode::cells_missing;
}

void to_json(json& json, const Row& row) {
  json = nlohmann::json::parse(row.text);
}

std::string text_of_cell(const json& line) {
  // Invalid UTF-8, from a child's garbage output say, must not cost the row.
  const auto text_of = [](const json& row) {
    return row.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string text = text_of(line);
  std::string why;
  try {
    if (!text_nests_too_deeply(text)) {
      const Row readable(text, nullptr);
      return text;
    }
    why = fmt::format("is nested more than {} deep", kDeepest);
  } catch (const Malformed& error) {
    why = error.what();
  }
  json error = {{"status", "error"}, {"message", fmt::format("its row {}", why)}};
  for (const char* name :
       {"type",          "schema",      "table",   "name",   "variant",    "precision",
        "threads",       "round",       "time",    "device", "backend",    "gpus",
        "ranks",         "build",       "problem", "key",    "arithmetic", "multiplier",
        "reseeds_empty", "unsandboxed", "took_ms"}) {
    if (line.contains(name)) {
      error[name] = line.at(name);
    }
  }
  text = text_of(error);
  const Row readable(text, nullptr);
  return text;
}

} // namespace clusterbench

#include "harness/machine/environment.hpp"

#include "datasets/sha256.hpp"
#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <initializer_list>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

namespace clusterbench {

using nlohmann::json;

json comparable_environment(const json& provenance) {
  json environment;
  const auto take = [&](const char* part, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      environment[part][key] = provenance.at(part).value(key, json());
    }
  };
  take("cpu", {"model", "cores", "online"});
  environment["environment"] = provenance.at("environment");
  environment["gpus"] = json::array();
  for (const json& gpu : provenance.at("gpu").value("devices", json::array())) {
    environment["gpus"].push_back({{"name", gpu.at("name")}, {"driver", gpu.at("driver_version")}});
  }
  if (!provenance.at("cpu").contains("microcode")) {
    // written before hosts of one name were told apart
    environment["kernel"] = provenance.at("system").value("kernel", json());
    return environment;
  }
  take("cpu", {"family", "model_number", "stepping", "microcode", "flags", "caches", "sockets"});
  take("system", {"kernel", "virtual_machine", "product"});
  for (std::size_t i = 0; i < environment["gpus"].size(); ++i) {
    for (const char* key :
         {"memory_total_bytes", "power_limit_watts", "sm_max_mhz", "memory_max_mhz"}) {
      environment["gpus"][i][key] = provenance.at("gpu").at("devices").at(i).value(key, json());
    }
  }
  if (!provenance.at("system").contains("hypervisor")) {
    return environment; // written before limits of the same machine were told apart
  }
  take("cpu", {"allowed", "governor", "mhz_max"});
  take("system", {"hypervisor", "cpu_quota"});
  const json total = provenance.at("memory").value("total_bytes", json());
  if (total.is_number()) {
    constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
    environment["memory"]["total_gib"] = static_cast<int>(std::round(total.get<double>() / kGib));
  }
  for (std::size_t i = 0; i < environment["gpus"].size(); ++i) {
    environment["gpus"][i]["mig"] = provenance.at("gpu").at("devices").at(i).value("mig", json());
  }
  return environment;
}

std::string environment_hash(const json& provenance) {
  const std::string text = comparable_environment(provenance).dump();
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

namespace {

// What newer ledgers compare beyond older ones, of which nothing is known there.
constexpr const char* kNewer[] = {"/cpu/allowed",       "/cpu/governor",     "/cpu/mhz_max",
                                  "/system/hypervisor", "/system/cpu_quota", "/memory/total_gib"};

bool is_newer(const json& environment) {
  return environment.contains(json::json_pointer("/system/hypervisor"));
}

// The environment's values by their path. Those of flags, of GPUs and of memory are told otherwise.
std::map<std::string, std::string> fields_of(json environment, bool without_newer) {
  if (environment.contains("cpu")) {
    environment["cpu"].erase("flags");
  }
  environment.erase("memory");
  if (const json::json_pointer quota("/system/cpu_quota"); environment.contains(quota)) {
    const json text = environment.at(quota); // none at all, and "max", are no quota
    const double processors = text.is_string() ? processors_of_quota(text.get<std::string>()) : 0.0;
    environment.at(quota) = processors > 0.0 ? json(processors) : json();
  }
  const json flat = environment.flatten();
  std::map<std::string, std::string> fields;
  for (const auto& [path, value] : flat.items()) {
    const bool newer = std::ranges::count(kNewer, path) > 0 || path.ends_with("/mig");
    if (!value.is_null() && !(without_newer && newer)) { // null and absent are no difference
      fields[path.substr(1)] = value.dump();
    }
  }
  return fields;
}

std::set<std::string> flags_of(const json& environment) {
  std::set<std::string> flags;
  const json::json_pointer place("/cpu/flags");
  for (const json& flag : environment.contains(place) ? environment.at(place) : json::array()) {
    flags.insert(flag.is_string() ? flag.get<std::string>() : flag.dump());
  }
  return flags;
}

// "avx, avx2 and 7 more" of what the one has beyond the other.
std::string beyond(const std::set<std::string>& one, const std::set<std::string>& other) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> more;
  std::ranges::set_difference(one, other, std::back_inserter(more));
  const std::size_t shown = std::min(more.size(), kMost);
  const std::string text = fmt::format(
      "{}", fmt::join(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return more.size() > shown ? fmt::format("{} and {} more", text, more.size() - shown) : text;
}

void tell_flags(const json& a, const json& b, std::vector<std::string>& differences) {
  const auto flags_a = flags_of(a), flags_b = flags_of(b);
  if (flags_a == flags_b) {
    return;
  }
  std::vector<std::string> parts;
  if (const std::string more = beyond(flags_a, flags_b); !more.empty()) {
    parts.push_back("only the first has " + more);
  }
  if (const std::string more = beyond(flags_b, flags_a); !more.empty()) {
    parts.push_back("only the second has " + more);
  }
  differences.push_back(fmt::format("cpu/flags: {}", fmt::join(parts, ", ")));
}

// A kernel keeps some of it for itself, not always the same.
void tell_memory(const json& a, const json& b, std::vector<std::string>& differences) {
  const json::json_pointer place("/memory/total_gib");
  if (a.contains(place) && b.contains(place)) {
    const int gib_a = a.at(place), gib_b = b.at(place);
    if (std::abs(gib_a - gib_b) > 1) {
      differences.push_back(fmt::format("memory: {} GiB, {} GiB", gib_a, gib_b));
    }
  }
}

// Where one has more than the other, their number alone.
void tell_number_of_gpus(json& a, json& b, std::vector<std::string>& differences) {
  const json none = json::array();
  const json gpus_a = a.value("gpus", none), gpus_b = b.value("gpus", none);
  if (gpus_a.size() == gpus_b.size()) {
    return;
  }
  const auto text = [](const json& gpus) {
    return gpus.empty() ? std::string("none")
                        : fmt::format("{} x {}", gpus.size(), gpus[0]["name"].dump());
  };
  differences.push_back(fmt::format("gpus: {}, {}", text(gpus_a), text(gpus_b)));
  a.erase("gpus");
  b.erase("gpus");
}

} // namespace

std::vector<std::string> environment_differences(const json& first, const json& second) {
  json a = first, b = second;
  std::vector<std::string> differences;
  tell_number_of_gpus(a, b, differences);
  const bool without_newer = is_newer(a) != is_newer(b);
  const auto fields_a = fields_of(a, without_newer), fields_b = fields_of(b, without_newer);
  std::set<std::string> paths;
  for (const auto* fields : {&fields_a, &fields_b}) {
    for (const auto& [path, value] : *fields) {
      paths.insert(path);
    }
  }
  for (const std::string& path : paths) {
    const auto text = [&](const auto& fields) {
      const auto found = fields.find(path);
      return found == fields.end() ? "none" : found->second;
    };
    if (text(fields_a) != text(fields_b)) {
      differences.push_back(fmt::format("{}: {}, {}", path, text(fields_a), text(fields_b)));
    }
  }
  tell_flags(a, b, differences);
  tell_memory(a, b, differences);
  return differences;
}

} // namespace clusterbench

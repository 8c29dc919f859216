#include "harness/machine/environment.hpp"

#include "datasets/sha256.hpp"
#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
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

// How much of its machine a ledger tells. Each generation tells what those before do.
enum class Generation { names_alone, hosts, limits };

Generation generation_of(const json& environment) {
  const auto has = [&](const char* place) {
    return environment.contains(json::json_pointer(place));
  };
  return has("/system/hypervisor") ? Generation::limits
         : has("/cpu/microcode")   ? Generation::hosts
                                   : Generation::names_alone;
}

// The first generation that tells of the field.
Generation told_since(const std::string& path) {
  constexpr const char* kLimits[] = {"/cpu/allowed", "/cpu/governor", "/cpu/mhz_max",
                                     "/system/hypervisor", "/system/cpu_quota"};
  constexpr const char* kNames[] = {"/cpu/model", "/cpu/cores", "/cpu/online", "/system/kernel"};
  if (std::ranges::count(kLimits, path) > 0 || path.ends_with("/mig")) {
    return Generation::limits;
  }
  const bool is_name = std::ranges::count(kNames, path) > 0 || path.starts_with("/environment/") ||
                       path.ends_with("/name") || path.ends_with("/driver");
  return is_name || !(path.starts_with("/cpu/") || path.starts_with("/system/") ||
                      path.starts_with("/gpus/"))
             ? Generation::names_alone
             : Generation::hosts;
}

// Where tools are found. It decides nothing that is measured.
constexpr const char* kPlacesOfTools[] = {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_BIN_PATH",
                                          "CUDA_CACHE_PATH"};

// "L1 Data 32 KiB, ..., L3 Unified 32 MiB x 2" of Google Benchmark's list.
std::string caches_text(const json& caches) {
  std::vector<std::string> texts;
  for (const json& cache : caches.is_array() ? caches : json::array()) {
    const auto number = [&](const char* key) {
      const json value = cache.is_object() ? cache.value(key, json()) : json();
      return value.is_number_integer() ? value.get<std::int64_t>() : 0;
    };
    const json type = cache.is_object() ? cache.value("type", json()) : json();
    texts.push_back(fmt::format("L{} {} {} KiB x {}", number("level"),
                                type.is_string() ? type.get<std::string>() : "",
                                number("bytes") >> 10, number("instances")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// The environment's values by their path, as far as ledgers of that generation tell them. Those of
// flags, of caches, of GPUs' number and of memory are told otherwise.
std::map<std::string, std::string> fields_of(json environment, Generation generation) {
  if (environment.contains("cpu")) {
    environment["cpu"].erase("flags");
    environment["cpu"].erase("caches");
  }
  if (environment.contains("kernel")) { // as the first generation has it
    environment["system"]["kernel"] = environment["kernel"];
    environment.erase("kernel");
  }
  for (const char* variable : kPlacesOfTools) {
    if (environment.contains("environment") && environment["environment"].is_object()) {
      environment["environment"].erase(variable);
    }
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
    if (!value.is_null() && told_since(path) <= generation) { // null and absent are no difference
      fields[path.substr(1)] = value.dump();
    }
  }
  return fields;
}

// What tells most comes first.
bool is_of_the_chips(const std::string& path) {
  return path == "cpu/model" || path.starts_with("gpus/");
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

void tell_caches(const json& a, const json& b, std::vector<std::string>& differences) {
  const json::json_pointer place("/cpu/caches");
  if (a.contains(place) && b.contains(place) && a.at(place) != b.at(place)) {
    differences.push_back(
        fmt::format("cpu/caches: {}; {}", caches_text(a.at(place)), caches_text(b.at(place))));
  }
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
  const Generation generation = std::min(generation_of(a), generation_of(b));
  const auto fields_a = fields_of(a, generation), fields_b = fields_of(b, generation);
  std::set<std::string> paths;
  for (const auto* fields : {&fields_a, &fields_b}) {
    for (const auto& [path, value] : *fields) {
      paths.insert(path);
    }
  }
  std::vector<std::string> in_order(paths.begin(), paths.end());
  std::stable_partition(in_order.begin(), in_order.end(), is_of_the_chips);
  for (const std::string& path : in_order) {
    const auto text = [&](const auto& fields) {
      const auto found = fields.find(path);
      return found == fields.end() ? "none" : found->second;
    };
    if (text(fields_a) != text(fields_b)) {
      differences.push_back(fmt::format("{}: {}, {}", path, text(fields_a), text(fields_b)));
    }
  }
  if (generation >= Generation::hosts) {
    tell_caches(a, b, differences);
    tell_flags(a, b, differences);
  }
  tell_memory(a, b, differences);
  return differences;
}

std::string listed(const std::vector<std::string>& differences) {
  constexpr std::size_t kMost = 5;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(differences.size(), kMost));
  const std::string text =
      fmt::format("{}", fmt::join(differences.begin(), differences.begin() + shown, "; "));
  return differences.size() > kMost
             ? fmt::format("{}; and {} more", text, differences.size() - kMost)
             : text;
}

} // namespace clusterbench

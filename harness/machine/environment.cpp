#include "harness/machine/environment.hpp"

#include "datasets/sha256.hpp"

#include <cmath>
#include <fmt/format.h>
#include <initializer_list>
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
  if (total.is_number()) { // a kernel keeps some of it, not always the same
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

// The environment's fields by their path. A flag of the processor is a field of its own, so that
// one that is missing is one difference.
json fields_of(json environment) {
  const json::json_pointer place("/cpu/flags");
  if (environment.contains(place) && environment.at(place).is_array()) {
    json flags = json::object();
    for (const json& flag : environment.at(place)) {
      flags[flag.is_string() ? flag.get<std::string>() : flag.dump()] = true;
    }
    environment.at(place) = flags;
  }
  return environment.flatten();
}

} // namespace

std::vector<std::string> environment_differences(const json& a, const json& b) {
  const json flat_a = fields_of(a);
  const json flat_b = fields_of(b);
  std::set<std::string> fields;
  for (const json* flat : {&flat_a, &flat_b}) {
    for (const auto& [field, value] : flat->items()) {
      fields.insert(field);
    }
  }
  std::vector<std::string> differences;
  for (const std::string& field : fields) {
    const auto text = [&](const json& flat) {
      return flat.contains(field) ? flat.at(field).dump() : std::string("absent");
    };
    if (text(flat_a) != text(flat_b)) {
      differences.push_back(fmt::format("{}: {}, {}", field.substr(1), text(flat_a), text(flat_b)));
    }
  }
  return differences;
}

} // namespace clusterbench

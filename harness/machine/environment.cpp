#include "harness/machine/environment.hpp"

#include "datasets/sha256.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

namespace clusterbench {

using nlohmann::json;

json comparable_environment(const json& provenance) {
  json environment;
  for (const char* key : {"model", "cores", "online"}) {
    environment["cpu"][key] = provenance.at("cpu").value(key, json());
  }
  environment["environment"] = provenance.at("environment");
  environment["kernel"] = provenance.at("system").value("kernel", json());
  environment["gpus"] = json::array();
  for (const json& gpu : provenance.at("gpu").value("devices", json::array())) {
    environment["gpus"].push_back({{"name", gpu.at("name")}, {"driver", gpu.at("driver_version")}});
  }
  return environment;
}

std::string environment_hash(const json& provenance) {
  const std::string text = comparable_environment(provenance).dump();
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

std::vector<std::string> environment_differences(const json& a, const json& b) {
  const json flat_a = a.flatten();
  const json flat_b = b.flatten();
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

#include "harness/gate/noise_floor.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/ledger/statistics.hpp"
#include "harness/system/files.hpp"
#include "harness/system/json_words.hpp"

#include <fmt/format.h>
#include <vector>

namespace clusterbench {

using nlohmann::json;

double NoiseFloor::of(const std::string& cell) const {
  const auto known = cells.find(cell);
  return known == cells.end() ? pair_sd : known->second;
}

std::filesystem::path noise_floor_file(const std::string& environment_hash) {
  return datasets::cache_directory() / "noise-floor" / (environment_hash + ".json");
}

NoiseFloor load_noise_floor(const std::string& environment_hash) {
  NoiseFloor floor;
  if (datasets::cache_directory_or_none().empty()) {
    return floor;
  }
  const auto path = noise_floor_file(environment_hash);
  if (!std::filesystem::exists(path)) {
    return floor;
  }
  try {
    const json file = read_json_file(path);
    floor.pair_sd = file.at("pair_sd");
    floor.cells = file.at("cells").get<std::map<std::string, double>>();
    floor.calibrated = true;
  } catch (const json::exception& error) {
    throw datasets::InputError(fmt::format("{}: {}", path.string(), words_of(error)));
  }
  const auto check = [&](const std::string& name, double sd) {
    if (sd < 0.0) {
      throw datasets::InputError(fmt::format(
          "{}: {} is {}, but a standard deviation is not negative", path.string(), name, sd));
    }
  };
  check("pair_sd", floor.pair_sd);
  for (const auto& [name, sd] : floor.cells) {
    check(name, sd);
  }
  return floor;
}

NoiseFloor store_noise_floor(const std::string& environment_hash,
                             const std::map<std::string, double>& cells) {
  NoiseFloor floor = load_noise_floor(environment_hash);
  for (const auto& [name, sd] : cells) {
    floor.cells[name] = sd;
  }
  std::vector<double> all;
  for (const auto& [name, sd] : floor.cells) {
    all.push_back(sd);
  }
  floor.pair_sd = all.empty() ? floor.pair_sd : median(all);
  floor.calibrated = true;
  const auto path = noise_floor_file(environment_hash);
  make_output_folder(path.parent_path());
  write_text_file(
      path, json{{"schema", 1}, {"pair_sd", floor.pair_sd}, {"cells", floor.cells}}.dump(2) + "\n");
  return floor;
}

} // namespace clusterbench

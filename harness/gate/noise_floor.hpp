// What pairs of one and the same build differ by on this machine, as `gate --calibrate` found it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace clusterbench {

struct NoiseFloor {
  double pair_sd = 0.005;              ///< of a cell that was not calibrated
  std::map<std::string, double> cells; ///< by name: standard deviation of a pair's log ratio
  bool calibrated = false;

  double of(const std::string& cell) const;
};

/// noise-floor/<environment hash>.json in the cache folder: another machine, kernel or driver has
/// another file.
std::filesystem::path noise_floor_file(const std::string& environment_hash);

/// The stored floor, or the default of 0.5 % where nothing was calibrated. Throws
/// datasets::InputError for a damaged file.
NoiseFloor load_noise_floor(const std::string& environment_hash);

/// Adds the cells to what is stored and takes the median cell for those that are not. Throws
/// datasets::OutputError.
NoiseFloor store_noise_floor(const std::string& environment_hash,
                             const std::map<std::string, double>& cells);

} // namespace clusterbench

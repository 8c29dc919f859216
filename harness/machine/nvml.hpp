// Facts about NVIDIA GPUs from the driver's management library, which is opened at run time: no
// build dependency, and no CUDA context in the process that asks.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// One GPU at one moment. What a device does not tell is empty.
struct GpuState {
  unsigned index = 0; ///< in the driver's (PCI) order, which CUDA_VISIBLE_DEVICES may change
  std::string name;
  std::string driver_version;
  std::string cuda_driver_version; ///< the newest CUDA that the driver supports, such as "13.0"
  std::size_t memory_total_bytes = 0;
  std::size_t memory_used_bytes = 0;
  std::optional<unsigned> sm_mhz;
  std::optional<unsigned> sm_max_mhz;
  std::optional<unsigned> memory_mhz;
  std::optional<unsigned> memory_max_mhz;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<unsigned> temperature_celsius;
  std::optional<std::vector<std::string>> throttle_reasons; ///< empty list: runs freely
  bool throttled = false; ///< slower than asked for (power, heat), not merely idle or set lower
  std::optional<std::string> compute_mode;
  std::optional<bool> mig;         ///< split into instances
  std::optional<bool> persistence; ///< the driver stays loaded between programs
};

void to_json(nlohmann::json& json, const GpuState& state);

/// Why no GPU can be used: no driver library, a driver error, no device, or all of them hidden by
/// CUDA_VISIBLE_DEVICES. Empty if one can.
std::string gpu_missing_reason();

/// Why a driver cannot run what a CUDA toolkit has built; empty if it can, or where one is not known.
/// driver_cuda: the newest CUDA that the driver supports, as it says it: 12020; toolkit: such as "13.0.88"
std::string driver_too_old_reason(int driver_cuda, const std::string& toolkit,
                                  const std::string& driver);

/// Why this build's CUDA code cannot run: no GPU, or a driver older than the build's toolkit. Does not
/// start CUDA, so that a driver which fails at that is found by whoever needs it.
std::string cuda_missing_reason();

/// The GPUs that the driver sees; 0 if there is no driver.
unsigned gpu_count();

/// Throws std::runtime_error if there is no such GPU or the driver fails.
GpuState gpu_state(unsigned index);

/// What a GPU's clock does at one moment.
struct GpuPace {
  std::optional<unsigned> sm_mhz;
  std::vector<std::string> slowed_by; ///< the throttle reasons that make it slower than asked for
};

/// Asks one GPU again and again, without opening the library each time.
class GpuPaceReader {
public:
  /// Throws std::runtime_error if there is no such GPU or the driver fails.
  explicit GpuPaceReader(unsigned index);
  ~GpuPaceReader();
  GpuPaceReader(const GpuPaceReader&) = delete;
  GpuPaceReader& operator=(const GpuPaceReader&) = delete;

  GpuPace now() const;

private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

} // namespace clusterbench

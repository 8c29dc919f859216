// Facts about NVIDIA GPUs from the driver's management library, which is opened at run time: no
// build dependency, and no CUDA context in the process that asks.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// One GPU at one moment. What a device does not tell is empty.
struct GpuState {
  unsigned index = 0; ///< the driver's, as nvidia-smi shows it
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

/// Why a driver cannot run what a CUDA toolkit has built; empty if it can, or where one is not
/// known. driver_cuda: the newest CUDA that the driver supports, as it says it: 12020; toolkit:
/// such as "13.0.88"
std::string driver_too_old_reason(int driver_cuda, const std::string& toolkit,
                                  const std::string& driver);

/// Why this build's CUDA code cannot run: no GPU, or a driver older than the build's toolkit. Does
/// not start CUDA, so that a driver which fails at that is found by whoever needs it.
std::string cuda_missing_reason();

/// The driver's numbers of the GPUs that a CUDA program sees, in its order. visible:
/// CUDA_VISIBLE_DEVICES, numbers or beginnings of UUIDs up to the first that is none, or null;
/// uuids: of all GPUs, in the driver's order, which is taken to be CUDA's, as it is where they are
/// of one model. Parts of a GPU (MIG) are not told apart: then all of them.
std::vector<unsigned> visible_gpus(const char* visible, const std::vector<std::string>& uuids);

/// The GPUs that CUDA programs see; 0 if there is no driver. All functions here number them as
/// these do.
unsigned gpu_count();

/// Throws std::runtime_error if there is no such GPU or the driver fails.
GpuState gpu_state(unsigned index);

/// What the clocks of GPUs do at one moment.
struct GpuPace {
  std::optional<unsigned> sm_mhz;     ///< of the slowest
  std::vector<std::string> slowed_by; ///< the throttle reasons that make one slower than asked for
};

/// Times taken while others use a GPU for more of the time than this are not compared.
inline constexpr double kMostUseByOthers = 0.2;

/// What `read` says once others alone are left in it: it counts what has just ended for up to a
/// second, so it is asked until it says 0 or `patience` is over. Empty if it says nothing, or more
/// than 0 where there is no patience to tell why.
std::optional<double> settled_use(const std::function<std::optional<double>()>& read,
                                  std::chrono::duration<double> patience);

/// The share of the last moments in which other programs computed on the first `count` GPUs, of the
/// busiest of them, while none of ours runs. Empty as above, or where a device does not tell.
std::optional<double> use_by_others(unsigned count, std::chrono::duration<double> patience);

/// Asks the first GPUs again and again, without opening the library each time.
class GpuPaceReader {
public:
  /// Throws std::runtime_error if there are not so many or the driver fails.
  explicit GpuPaceReader(unsigned count);
  ~GpuPaceReader();
  GpuPaceReader(const GpuPaceReader&) = delete;
  GpuPaceReader& operator=(const GpuPaceReader&) = delete;

  GpuPace now() const;

private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

} // namespace clusterbench

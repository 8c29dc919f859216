#include "harness/machine/nvml.hpp"

#include "harness/machine/build_info.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include <dlfcn.h>

namespace clusterbench {
namespace {

// The few declarations of nvml.h that are needed; its interface is stable by version suffix.
using Status = int;
using DeviceHandle = void*;
constexpr Status kSuccess = 0;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;
struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization { ///< per cent
  unsigned gpu, memory;
};

/// A bit of the throttle mask, and whether it means that the device is slower than asked for.
struct ThrottleReason {
  unsigned long long bit;
  const char* name;
  bool slower;
};
constexpr std::array kThrottleReasons = {
    ThrottleReason{0x001, "idle", false},
    ThrottleReason{0x002, "application clocks", false},
    ThrottleReason{0x004, "power cap", true},
    ThrottleReason{0x008, "hardware slowdown", true},
    ThrottleReason{0x010, "sync boost", true},
    ThrottleReason{0x020, "software thermal slowdown", true},
    ThrottleReason{0x040, "hardware thermal slowdown", true},
    ThrottleReason{0x080, "power brake", true},
    ThrottleReason{0x100, "display clocks", false},
};

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, LibraryCloser>;

/// An initialised libnvidia-ml; shut down with the object.
class Nvml {
public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) {
      throw std::runtime_error("no NVIDIA driver: libnvidia-ml.so.1 was not found");
    }
    check(function<Status()>("nvmlInit_v2")(), "nvmlInit_v2");
  }
  ~Nvml() {
    if (auto* shutdown = find<Status()>("nvmlShutdown")) {
      shutdown();
    }
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Calls a function that must exist and succeed.
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    check(function<Status(Arguments...)>(name)(arguments...), name);
  }

  /// Calls a function that a device or an older driver need not support; true if it succeeded.
  template <typename... Arguments>
  bool try_call(const char* name, Arguments... arguments) const {
    auto* called = find<Status(Arguments...)>(name);
    return called != nullptr && called(arguments...) == kSuccess;
  }

private:
  template <typename Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_.get(), name));
  }

  template <typename Function>
  Function* function(const char* name) const {
    if (auto* found = find<Function>(name)) {
      return found;
    }
    throw std::runtime_error(fmt::format("the NVIDIA driver has no {}", name));
  }

  void check(Status status, const char* name) const {
    if (status != kSuccess) {
      auto* describe = find<const char*(Status)>("nvmlErrorString");
      throw std::runtime_error(fmt::format("NVIDIA driver error {} in {}: {}", status, name,
                                           describe != nullptr ? describe(status) : "unknown"));
    }
  }

  Library library_;
};

unsigned count_devices(const Nvml& nvml) {
  unsigned count = 0;
  nvml.call("nvmlDeviceGetCount_v2", &count);
  return count;
}

DeviceHandle device_at(const Nvml& nvml, unsigned index) {
  DeviceHandle device = nullptr;
  nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device);
  return device;
}

// The driver's numbers of those that CUDA sees. A GPU that does not answer must not hide the
// others.
std::vector<unsigned> visible_now(const Nvml& nvml) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> uuids(count_devices(nvml));
  const bool by_uuid =
      visible != nullptr && std::string_view(visible).find("GPU-") != std::string_view::npos;
  bool any = false;
  for (unsigned index = 0; by_uuid && index < uuids.size(); ++index) {
    DeviceHandle device = nullptr;
    std::array<char, 128> text{};
    if (nvml.try_call("nvmlDeviceGetHandleByIndex_v2", index, &device) &&
        nvml.try_call("nvmlDeviceGetUUID", device, text.data(),
                      static_cast<unsigned>(text.size()))) {
      uuids[index] = text.data();
      any = true;
    }
  }
  return visible_gpus(by_uuid && !any ? nullptr : visible, uuids);
}

unsigned driver_index(const Nvml& nvml, unsigned index) {
  const std::vector<unsigned> visible = visible_now(nvml);
  if (index >= visible.size()) {
    throw std::runtime_error(
        fmt::format("GPU {} is asked for, CUDA sees {}", index, visible.size()));
  }
  return visible[index];
}

std::vector<DeviceHandle> first_devices(const Nvml& nvml, unsigned count) {
  std::vector<unsigned> visible = visible_now(nvml);
  if (count > visible.size()) {
    throw std::runtime_error(
        fmt::format("{} GPUs are asked for, CUDA sees {}", count, visible.size()));
  }
  visible.resize(count);
  std::vector<DeviceHandle> devices;
  for (const unsigned index : visible) {
    devices.push_back(device_at(nvml, index));
  }
  return devices;
}

std::optional<unsigned> read_unsigned(const Nvml& nvml, const char* name, DeviceHandle device) {
  unsigned value = 0;
  return nvml.try_call(name, device, &value) ? std::optional(value) : std::nullopt;
}

std::optional<unsigned> read_unsigned(const Nvml& nvml, const char* name, DeviceHandle device,
                                      int which) {
  unsigned value = 0;
  return nvml.try_call(name, device, which, &value) ? std::optional(value) : std::nullopt;
}

std::optional<double> read_watts(const Nvml& nvml, const char* name, DeviceHandle device) {
  const std::optional<unsigned> milliwatts = read_unsigned(nvml, name, device);
  return milliwatts ? std::optional(*milliwatts / 1000.0) : std::nullopt;
}

struct Throttling {
  std::vector<std::string> reasons;   ///< all of them
  std::vector<std::string> slowed_by; ///< those that make the device slower than asked for
};

std::optional<Throttling> read_throttling(const Nvml& nvml, DeviceHandle device) {
  unsigned long long mask = 0;
  // Renamed in newer drivers; some lack the one, some the other.
  if (!nvml.try_call("nvmlDeviceGetCurrentClocksEventReasons", device, &mask) &&
      !nvml.try_call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &mask)) {
    return std::nullopt;
  }
  Throttling throttling;
  for (const ThrottleReason& reason : kThrottleReasons) {
    if ((mask & reason.bit) != 0) {
      throttling.reasons.emplace_back(reason.name);
      if (reason.slower) {
        throttling.slowed_by.emplace_back(reason.name);
      }
      mask &= ~reason.bit;
    }
  }
  if (mask != 0) {
    throttling.reasons.push_back(fmt::format("unknown {:#x}", mask));
    throttling.slowed_by.push_back(throttling.reasons.back());
  }
  return throttling;
}

std::optional<std::string> read_compute_mode(const Nvml& nvml, DeviceHandle device) {
  constexpr std::array kNames = {"default", "exclusive thread", "prohibited", "exclusive process"};
  const std::optional<unsigned> mode = read_unsigned(nvml, "nvmlDeviceGetComputeMode", device);
  if (!mode) {
    return std::nullopt;
  }
  return *mode < kNames.size() ? kNames[*mode] : fmt::format("unknown {}", *mode);
}

std::string text_of_cuda(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string cuda_version(const Nvml& nvml) {
  int version = 0;
  nvml.call("nvmlSystemGetCudaDriverVersion_v2", &version);
  return text_of_cuda(version);
}

std::string driver_version(const Nvml& nvml) {
  std::array<char, 128> text{};
  nvml.call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size()));
  return text.data();
}

// What libcuda.so.1 says of itself. A compatibility package may have put a newer one in the place
// of the driver's own, of which NVML knows nothing.
int cuda_version_of_library() {
  const Library library(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL));
  auto* ask = library ? reinterpret_cast<int (*)(int*)>(dlsym(library.get(), "cuDriverGetVersion"))
                      : nullptr;
  int version = 0;
  return ask != nullptr && ask(&version) == 0 ? version : 0;
}

} // namespace

std::string gpu_missing_reason() {
  try {
    const Nvml nvml;
    if (count_devices(nvml) == 0) {
      return "the NVIDIA driver sees no GPU";
    }
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  // Opening the library neither initialises CUDA nor creates a context.
  if (!Library(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))) {
    return "the NVIDIA driver is there, but its libcuda.so.1 was not found";
  }
  return gpu_count() == 0 ? "CUDA_VISIBLE_DEVICES hides every GPU" : "";
}

std::string driver_too_old_reason(int driver_cuda, const std::string& toolkit,
                                  const std::string& driver) {
  // Within a major version the runtime runs on every driver.
  if (toolkit.empty() || driver_cuda == 0 || driver_cuda / 1000 >= std::stoi(toolkit)) {
    return {};
  }
  return fmt::format(
      "the NVIDIA driver {} is too old for this build: it supports CUDA up to {}, and the "
      "build was made with CUDA {}",
      driver, text_of_cuda(driver_cuda), toolkit);
}

std::string cuda_missing_reason() {
  if (std::string reason = gpu_missing_reason(); !reason.empty()) {
    return reason;
  }
  return driver_too_old_reason(cuda_version_of_library(), build_info::cuda_compiler(),
                               driver_version(Nvml()));
}

std::vector<unsigned> visible_gpus(const char* visible, const std::vector<std::string>& uuids) {
  std::vector<unsigned> all(uuids.size());
  std::iota(all.begin(), all.end(), 0U);
  if (visible == nullptr || std::string_view(visible).find("MIG") != std::string_view::npos) {
    return all;
  }
  std::vector<unsigned> chosen;
  std::istringstream names{visible};
  for (std::string name; std::getline(names, name, ',');) {
    std::erase(name, ' ');
    const auto is_meant = [&](unsigned index) {
      return name == std::to_string(index) ||
             (name.starts_with("GPU-") && uuids[index].starts_with(name));
    };
    // CUDA stops at a name of none or of several.
    if (std::ranges::count_if(all, is_meant) != 1) {
      break;
    }
    chosen.push_back(*std::ranges::find_if(all, is_meant));
  }
  return chosen;
}

unsigned gpu_count() {
  try {
    return static_cast<unsigned>(visible_now(Nvml()).size());
  } catch (const std::runtime_error&) {
    return 0;
  }
}

GpuState gpu_state(unsigned index) {
  const Nvml nvml;
  GpuState state;
  state.index = driver_index(nvml, index);
  DeviceHandle device = device_at(nvml, state.index);
  std::array<char, 128> text{};
  nvml.call("nvmlDeviceGetName", device, text.data(), static_cast<unsigned>(text.size()));
  state.name = text.data();
  state.driver_version = driver_version(nvml);
  state.cuda_driver_version = cuda_version(nvml);
  Memory memory{};
  nvml.call("nvmlDeviceGetMemoryInfo", device, &memory);
  state.memory_total_bytes = memory.total;
  state.memory_used_bytes = memory.used;
  state.sm_mhz = read_unsigned(nvml, "nvmlDeviceGetClockInfo", device, kClockSm);
  state.sm_max_mhz = read_unsigned(nvml, "nvmlDeviceGetMaxClockInfo", device, kClockSm);
  state.memory_mhz = read_unsigned(nvml, "nvmlDeviceGetClockInfo", device, kClockMemory);
  state.memory_max_mhz = read_unsigned(nvml, "nvmlDeviceGetMaxClockInfo", device, kClockMemory);
  state.power_watts = read_watts(nvml, "nvmlDeviceGetPowerUsage", device);
  state.power_limit_watts = read_watts(nvml, "nvmlDeviceGetEnforcedPowerLimit", device);
  state.temperature_celsius =
      read_unsigned(nvml, "nvmlDeviceGetTemperature", device, kTemperatureGpu);
  if (const auto throttling = read_throttling(nvml, device)) {
    state.throttle_reasons = throttling->reasons;
    state.throttled = !throttling->slowed_by.empty();
  }
  state.compute_mode = read_compute_mode(nvml, device);
  unsigned current_mode = 0;
  unsigned pending_mode = 0;
  if (nvml.try_call("nvmlDeviceGetMigMode", device, &current_mode, &pending_mode)) {
    state.mig = current_mode != 0;
  }
  if (const auto mode = read_unsigned(nvml, "nvmlDeviceGetPersistenceMode", device)) {
    state.persistence = *mode != 0;
  }
  return state;
}

std::optional<double> settled_use(const std::function<std::optional<double>()>& read,
                                  std::chrono::duration<double> patience) {
  constexpr std::chrono::milliseconds kPause(20);
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const std::optional<double> use = read();
    if (!use || *use == 0.0) {
      return use;
    }
    if (std::chrono::steady_clock::now() >= until) {
      return patience.count() > 0.0 ? use : std::nullopt;
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<double> use_by_others(unsigned count, std::chrono::duration<double> patience) {
  const Nvml nvml;
  const std::vector<DeviceHandle> devices = first_devices(nvml, count);
  return settled_use(
      [&]() -> std::optional<double> {
        unsigned most = 0;
        for (const DeviceHandle device : devices) {
          Utilization percent{};
          if (!nvml.try_call("nvmlDeviceGetUtilizationRates", device, &percent)) {
            return std::nullopt;
          }
          most = std::max(most, percent.gpu);
        }
        return most / 100.0;
      },
      patience);
}

struct GpuPaceReader::Connection {
  Nvml nvml;
  std::vector<DeviceHandle> devices;
};

GpuPaceReader::GpuPaceReader(unsigned count) : connection_(std::make_unique<Connection>()) {
  connection_->devices = first_devices(connection_->nvml, count);
}

GpuPaceReader::~GpuPaceReader() = default;

GpuPace GpuPaceReader::now() const {
  const auto& [nvml, devices] = *connection_;
  GpuPace pace;
  for (const DeviceHandle device : devices) {
    if (const auto mhz = read_unsigned(nvml, "nvmlDeviceGetClockInfo", device, kClockSm)) {
      pace.sm_mhz = std::min(pace.sm_mhz.value_or(*mhz), *mhz);
    }
    if (const auto throttling = read_throttling(nvml, device)) {
      std::ranges::copy(throttling->slowed_by, std::back_inserter(pace.slowed_by));
    }
  }
  return pace;
}

void to_json(nlohmann::json& json, const GpuState& state) {
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  json = {{"index", state.index},
          {"name", state.name},
          {"driver_version", state.driver_version},
          {"cuda_driver_version", state.cuda_driver_version},
          {"memory_total_bytes", state.memory_total_bytes},
          {"memory_used_bytes", state.memory_used_bytes},
          {"sm_mhz", or_null(state.sm_mhz)},
          {"sm_max_mhz", or_null(state.sm_max_mhz)},
          {"memory_mhz", or_null(state.memory_mhz)},
          {"memory_max_mhz", or_null(state.memory_max_mhz)},
          {"power_watts", or_null(state.power_watts)},
          {"power_limit_watts", or_null(state.power_limit_watts)},
          {"temperature_celsius", or_null(state.temperature_celsius)},
          {"throttle_reasons", or_null(state.throttle_reasons)},
          {"throttled", state.throttled},
          {"compute_mode", or_null(state.compute_mode)},
          {"mig", or_null(state.mig)},
          {"persistence", or_null(state.persistence)}};
}

} // namespace clusterbench

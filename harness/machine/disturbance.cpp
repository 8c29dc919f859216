#include "harness/machine/disturbance.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>
#include <unistd.h>

namespace clusterbench {
namespace {

std::filesystem::path tasks_of(pid_t process) {
  return std::filesystem::path("/proc") / std::to_string(process) / "task";
}

// Of all its threads that live. Those that have ended count no more.
long involuntary_switches(pid_t process) {
  long switches = 0;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(tasks_of(process), gone)) {
    constexpr std::string_view kName = "nonvoluntary_ctxt_switches:";
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(kName)) {
        switches += std::stol(line.substr(kName.size()));
      }
    }
  }
  return switches;
}

long involuntary_switches(const std::vector<pid_t>& processes) {
  long switches = 0;
  for (const pid_t process : processes) {
    switches += involuntary_switches(process);
  }
  return switches;
}

std::optional<double> current_mhz() {
  const int cpu = sched_getcpu();
  return cpu >= 0 ? cpu_mhz(cpu) : std::nullopt;
}

bool moved(std::optional<double> mhz_before, std::optional<double> mhz_after) {
  return mhz_before && mhz_after && std::abs(*mhz_after - *mhz_before) > 0.05 * *mhz_before;
}

template <typename T>
std::optional<T> difference(std::optional<T> after, std::optional<T> before) {
  return after && before ? std::optional(*after - *before) : std::nullopt;
}

/// thread: its folder in /proc.
std::optional<double> waited_seconds_of_thread(const std::filesystem::path& thread) {
  std::ifstream account(thread / "schedstat");
  double running = 0.0;
  double waiting = 0.0; // both in nanoseconds
  return account >> running >> waiting ? std::optional(waiting * 1e-9) : std::nullopt;
}

} // namespace

std::optional<double> cpu_mhz(int cpu) {
  std::ifstream scaling(fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", cpu));
  double kilohertz = 0.0;
  if (scaling >> kilohertz) {
    return kilohertz / 1000.0;
  }
  // x86 without a frequency driver: "processor : N" opens the block of each CPU.
  std::ifstream info("/proc/cpuinfo");
  bool this_cpu = false;
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) {
      continue;
    }
    std::istringstream value(line.substr(colon + 1));
    if (line.starts_with("processor")) {
      int number = -1;
      value >> number;
      this_cpu = number == cpu;
    } else if (double mhz = 0.0; this_cpu && line.starts_with("cpu MHz") && value >> mhz) {
      return mhz;
    }
  }
  return std::nullopt;
}

std::optional<double> stolen_seconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0,
                     steal = 0;
  if (!(stat >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal)) {
    return std::nullopt;
  }
  return static_cast<double>(steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::optional<double> waited_seconds(pid_t process) {
  double seconds = 0.0;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator(tasks_of(process), gone)) {
    if (const std::optional<double> waited = waited_seconds_of_thread(thread.path())) {
      seconds += *waited;
    } else if (std::filesystem::exists(thread.path())) { // not a thread that ended meanwhile
      return std::nullopt;
    }
  }
  return seconds;
}

std::optional<double> waited_seconds(const std::vector<pid_t>& processes) {
  double seconds = 0.0;
  for (const pid_t process : processes) {
    const std::optional<double> waited = waited_seconds(process);
    if (!waited) {
      return std::nullopt;
    }
    seconds += *waited;
  }
  return seconds;
}

double waited_seconds_of_first_thread(pid_t process) {
  return waited_seconds_of_thread(fmt::format("/proc/{0}/task/{0}", process)).value_or(0.0);
}

double waited_seconds_of_this_thread() {
  return waited_seconds_of_thread("/proc/thread-self").value_or(0.0);
}

std::optional<long> thermal_throttles() {
  static const std::vector<std::string> counters = [] {
    std::vector<std::string> found;
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) {
      for (const char* part : {"core", "package"}) {
        std::string name = fmt::format(
            "/sys/devices/system/cpu/cpu{}/thermal_throttle/{}_throttle_count", cpu, part);
        if (std::filesystem::exists(name)) {
          found.push_back(std::move(name));
        }
      }
    }
    return found;
  }();
  std::optional<long> events;
  for (const std::string& counter : counters) {
    if (long count = 0; std::ifstream(counter) >> count) {
      events = events.value_or(0) + count;
    }
  }
  return events;
}

bool Disturbance::disturbed() const {
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  // One tick may have been stolen before the sample began and be counted only now.
  const bool was_stolen = stolen && *stolen > std::max(0.01 * seconds, 1.5 * tick);
  const bool has_waited = waited && *waited > std::max(0.01 * seconds, 0.5e-3);
  const bool was_throttled =
      throttles.value_or(0) > 0 || !gpu_before.slowed_by.empty() || !gpu_after.slowed_by.empty();
  return was_stolen || has_waited || was_throttled || moved(mhz_before, mhz_after) ||
         moved(gpu_before.sm_mhz, gpu_after.sm_mhz);
}

void to_json(nlohmann::json& json, const Disturbance& disturbance) {
  const auto or_null = [](const auto& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  json = {{"seconds", disturbance.seconds},
          {"stolen_seconds", or_null(disturbance.stolen)},
          {"waited_seconds", or_null(disturbance.waited)},
          {"thermal_throttles", or_null(disturbance.throttles)},
          {"involuntary_switches", disturbance.involuntary_switches},
          {"mhz_before", or_null(disturbance.mhz_before)},
          {"mhz_after", or_null(disturbance.mhz_after)},
          {"disturbed", disturbance.disturbed()}};
  if (disturbance.gpu_before.sm_mhz) {
    std::vector<std::string> slowed_by = disturbance.gpu_before.slowed_by;
    slowed_by.insert(slowed_by.end(), disturbance.gpu_after.slowed_by.begin(),
                     disturbance.gpu_after.slowed_by.end());
    std::ranges::sort(slowed_by);
    const auto repeated = std::ranges::unique(slowed_by);
    slowed_by.erase(repeated.begin(), repeated.end());
    json["gpu_mhz_before"] = or_null(disturbance.gpu_before.sm_mhz);
    json["gpu_mhz_after"] = or_null(disturbance.gpu_after.sm_mhz);
    json["gpu_slowed_by"] = slowed_by;
  }
}

DisturbanceWatch::DisturbanceWatch(const GpuPaceReader* gpu, std::vector<pid_t> processes)
    : gpu_(gpu), processes_(std::move(processes)) {
  if (processes_.empty()) {
    processes_ = {getpid()};
  }
  if (gpu_ != nullptr) {
    before_.gpu_before = gpu_->now();
  }
  before_.stolen = stolen_seconds();
  before_.throttles = thermal_throttles();
  before_.mhz_before = current_mhz();
  before_.involuntary_switches = involuntary_switches(processes_);
  before_.waited = waited_seconds(processes_);
  start_ = std::chrono::steady_clock::now();
}

Disturbance DisturbanceWatch::since() const {
  Disturbance result = before_;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (gpu_ != nullptr) { // first: its clock falls soon
    result.gpu_after = gpu_->now();
  }
  result.waited = difference(waited_seconds(processes_), before_.waited);
  result.involuntary_switches = involuntary_switches(processes_) - before_.involuntary_switches;
  result.mhz_after = current_mhz();
  result.stolen = difference(stolen_seconds(), before_.stolen);
  result.throttles = difference(thermal_throttles(), before_.throttles);
  return result;
}

} // namespace clusterbench

#include "harness/machine/disturbance.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace clusterbench {
namespace {

long involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

std::optional<double> current_mhz() {
  const int cpu = sched_getcpu();
  return cpu >= 0 ? cpu_mhz(cpu) : std::nullopt;
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

bool Disturbance::disturbed() const {
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  // One tick may have been stolen before the sample began and be counted only now.
  const bool was_stolen = stolen && *stolen > std::max(0.01 * seconds, 1.5 * tick);
  const bool clock_moved =
      mhz_before && mhz_after && std::abs(*mhz_after - *mhz_before) > 0.05 * *mhz_before;
  return was_stolen || clock_moved;
}

void to_json(nlohmann::json& json, const Disturbance& disturbance) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  json = {{"seconds", disturbance.seconds},
          {"stolen_seconds", or_null(disturbance.stolen)},
          {"involuntary_switches", disturbance.involuntary_switches},
          {"mhz_before", or_null(disturbance.mhz_before)},
          {"mhz_after", or_null(disturbance.mhz_after)},
          {"disturbed", disturbance.disturbed()}};
}

DisturbanceWatch::DisturbanceWatch()
    : start_(std::chrono::steady_clock::now()), stolen_(stolen_seconds()),
      involuntary_switches_(involuntary_switches()), mhz_(current_mhz()) {}

Disturbance DisturbanceWatch::since() const {
  Disturbance result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  result.involuntary_switches = involuntary_switches() - involuntary_switches_;
  if (const std::optional<double> stolen_now = stolen_seconds(); stolen_ && stolen_now) {
    result.stolen = *stolen_now - *stolen_;
  }
  result.mhz_before = mhz_;
  result.mhz_after = current_mhz();
  return result;
}

} // namespace clusterbench

// Was the machine quiet while a sample was taken? A changed clock, a throttled processor or time
// that others took from us marks a sample; it is kept all the same.
#pragma once

#include "harness/machine/nvml.hpp"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <optional>
#include <sys/types.h>
#include <vector>

namespace clusterbench {

/// The current clock of a CPU [MHz]; empty where the system does not tell. Virtual machines often
/// report a constant.
std::optional<double> cpu_mhz(int cpu);

/// Time that a hypervisor gave to others while this machine wanted to run: all CPUs, since boot, in
/// steps of a scheduler tick [s]; empty where /proc/stat does not tell.
std::optional<double> stolen_seconds();

/// Time that the living threads of a process were ready to run and waited for a CPU that another
/// process had [s], together; empty where the kernel keeps no such account.
std::optional<double> waited_seconds(pid_t process);
/// The same of several processes.
std::optional<double> waited_seconds(const std::vector<pid_t>& processes);

/// The same of a process's first thread alone, and of the thread that asks [s]; 0 where there is no
/// account.
double waited_seconds_of_first_thread(pid_t process);
double waited_seconds_of_this_thread();

/// How often CPUs and their packages have slowed down because of heat, since boot; empty where the
/// system does not tell, as in most virtual machines.
std::optional<long> thermal_throttles();

/// What happened between two moments.
struct Disturbance {
  double seconds = 0.0; ///< between the two moments
  std::optional<double> stolen;
  std::optional<double> waited;
  std::optional<long> throttles;
  long involuntary_switches = 0; ///< times that a thread of the process lost its CPU to another
  std::optional<double> mhz_before;
  std::optional<double> mhz_after;
  GpuPace gpu_before; ///< both empty unless a GPU is watched
  GpuPace gpu_after;

  /// Stolen for more than 1 % of the time (and more than one tick), waited for as much (and half a
  /// millisecond: less is how long a thread takes to wake up), throttled, or a clock that moved by
  /// more than 5 %.
  bool disturbed() const;
};

void to_json(nlohmann::json& json, const Disturbance& disturbance);

/// Notes the state of the machine when it is made; since() compares with it.
class DisturbanceWatch {
public:
  /// gpu: the device that the sample runs on, or null; must live as long as this. processes: those
  /// that run it; none: this one.
  explicit DisturbanceWatch(const GpuPaceReader* gpu = nullptr, std::vector<pid_t> processes = {});
  Disturbance since() const;

private:
  const GpuPaceReader* gpu_;
  std::vector<pid_t> processes_;
  Disturbance before_; ///< of its fields those that count from some other moment
  std::chrono::steady_clock::time_point start_;
};

} // namespace clusterbench

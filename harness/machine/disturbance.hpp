// Was the machine quiet while a sample was taken? A changed clock, time stolen by a hypervisor or
// an interrupted process marks a sample; it is kept all the same.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <optional>

namespace clusterbench {

/// The current clock of a CPU [MHz]; empty where the system does not tell. Virtual machines often
/// report a constant.
std::optional<double> cpu_mhz(int cpu);

/// Time that a hypervisor gave to others while this machine wanted to run: all CPUs, since boot, in
/// steps of a scheduler tick [s]; empty where /proc/stat does not tell.
std::optional<double> stolen_seconds();

/// What happened between two moments.
struct Disturbance {
  double seconds = 0.0; ///< between the two moments
  std::optional<double> stolen;
  long involuntary_switches = 0; ///< times that a thread of this process lost its CPU to another
  std::optional<double> mhz_before;
  std::optional<double> mhz_after;

  /// Stolen for more than 1 % of the time (and more than one tick), or a clock that moved by more
  /// than 5 %.
  bool disturbed() const;
};

void to_json(nlohmann::json& json, const Disturbance& disturbance);

/// Notes the state of the machine when it is made; since() compares with it.
class DisturbanceWatch {
public:
  DisturbanceWatch();
  Disturbance since() const;

private:
  std::chrono::steady_clock::time_point start_;
  std::optional<double> stolen_;
  long involuntary_switches_;
  std::optional<double> mhz_;
};

} // namespace clusterbench

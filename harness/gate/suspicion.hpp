// Speed-ups that no bound allows: where one is found, the clock or the build is wrong, or the
// variant has not done its work.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace clusterbench {

/// No change of a program that does its work makes it so many times faster.
inline constexpr double kMostTimesFaster = 100.0;
/// Skipping distances and tensor cores explain some hundred percent of the limit, not these.
inline constexpr double kMostPercentOfLimit = 1000.0;
/// Below it nobody asks for the limit.
inline constexpr double kTimesFasterToProbe = 5.0;

/// Why it is not believed that the base took `base` and the new build takes `fresh`, both in
/// `unit`; empty if it may be.
std::string unbelievable_ratio(double base, double fresh, const char* unit);

/// The same of a time alone. row: as add_derived_figures() reads it; limits: of the machine.
std::string unbelievable_time(nlohmann::json row, const nlohmann::json& limits);

} // namespace clusterbench

#include "harness/gate/suspicion.hpp"

#include "harness/ledger/limits.hpp"

#include <fmt/format.h>

namespace clusterbench {

std::string unbelievable_ratio(double base, double fresh, const char* unit) {
  return base > kMostTimesFaster * fresh
             ? fmt::format("{:.4g} -> {:.4g} {}: more than {:g} times less, which no change of a "
                           "program makes of a run that does its work",
                           base, fresh, unit, kMostTimesFaster)
             : std::string();
}

std::string unbelievable_time(nlohmann::json row, const nlohmann::json& limits) {
  add_derived_figures(row, limits);
  const double percent = row.value("percent_of_limit", 0.0);
  return percent > kMostPercentOfLimit
             ? fmt::format("{:.4g} ms a pass is {:.0f} % of what this machine can do ({})",
                           row.at("ms_per_iteration").get<double>(), percent,
                           row.at("limit").get<std::string>())
             : std::string();
}

} // namespace clusterbench

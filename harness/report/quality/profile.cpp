#include "harness/report/quality/profile.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace clusterbench {

double Profile::rho(std::size_t solver, double tau) const {
  const std::vector<double>& solved = ratios.at(solver);
  const auto within = std::ranges::upper_bound(solved, tau) - solved.begin();
  return instances == 0 ? 0.0 : static_cast<double>(within) / static_cast<double>(instances);
}

Profile performance_profile(const std::vector<std::vector<double>>& times) {
  Profile profile;
  profile.instances = times.size();
  profile.ratios.resize(times.empty() ? 0 : times.front().size());
  for (const std::vector<double>& instance : times) {
    if (instance.size() != profile.ratios.size() || instance.empty() ||
        !std::ranges::all_of(instance, [](double time) { return time > 0.0; })) {
      throw std::invalid_argument("performance_profile: one positive time for each solver");
    }
    const double least = std::ranges::min(instance);
    if (!std::isfinite(least)) {
      ++profile.unsolved;
      continue;
    }
    for (std::size_t solver = 0; solver < instance.size(); ++solver) {
      if (std::isfinite(instance[solver])) {
        profile.ratios[solver].push_back(instance[solver] / least);
      }
    }
  }
  for (std::vector<double>& ratios : profile.ratios) {
    std::ranges::sort(ratios);
  }
  return profile;
}

} // namespace clusterbench

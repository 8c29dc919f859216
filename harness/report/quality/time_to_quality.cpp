#include "harness/report/quality/time_to_quality.hpp"

#include <algorithm>
#include <stdexcept>

namespace clusterbench {

Reached time_to_quality(const Attempt& attempt, double goal) {
  const auto& inertia = attempt.inertia;
  // A comparison with NaN is false, so that an unknown inertia reaches nothing.
  const auto first = std::ranges::find_if(inertia, [&](double value) { return value <= goal; });
  if (!attempt.ok() || first == inertia.end()) {
    return {};
  }
  const auto passes = static_cast<std::size_t>(first - inertia.begin()) + 1;
  const double share = static_cast<double>(passes) / static_cast<double>(inertia.size());
  return {passes, attempt.around_ms + attempt.run_ms * share};
}

double time_with_restarts(std::span<const StartCost> starts) {
  if (starts.empty()) {
    throw std::invalid_argument("time_with_restarts: no starts");
  }
  double sum = 0.0;
  for (std::size_t first = 0; first < starts.size(); ++first) {
    double spent = 0.0;
    std::size_t tried = 0;
    while (tried < starts.size()) {
      const StartCost& start = starts[(first + tried) % starts.size()];
      if (start.reached_ms < kNever) {
        spent += start.reached_ms;
        break;
      }
      spent += start.full_ms;
      ++tried;
    }
    if (tried == starts.size()) {
      return kNever;
    }
    sum += spent;
  }
  return sum / static_cast<double>(starts.size());
}

double median_or_never(std::vector<double> values) {
  if (values.empty()) {
    throw std::invalid_argument("median_or_never: no values");
  }
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

} // namespace clusterbench

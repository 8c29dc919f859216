#include "harness/report/digits.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace clusterbench {
namespace {

constexpr int kMost = 4;
constexpr int kUnknown = 3; ///< of one sample

double relative_width(const Rounds& rounds) {
  const PooledRounds pooled = pool_rounds(rounds);
  return (pooled.interval.high - pooled.interval.low) / pooled.median;
}

std::string pooled_text(std::optional<double> ms, const Rounds& rounds) {
  return with_digits(ms, rounds.empty() ? kUnknown : digits_of(relative_width(rounds)));
}

} // namespace

int digits_of(double relative_width) {
  if (!(relative_width > 0.0)) {
    return relative_width == 0.0 ? kUnknown : 2; // as if it were not a number
  }
  constexpr double kRounding = 1e-9; // that 10 % is 10 %, however it was computed
  return std::clamp(static_cast<int>(std::ceil(-std::log10(relative_width) - kRounding)) + 1, 2,
                    kMost);
}

std::string with_digits(std::optional<double> value, int digits) {
  if (!value || !std::isfinite(*value)) {
    return {};
  }
  const std::string rounded = fmt::format("{:.{}e}", *value, digits - 1);
  const int exponent = std::stoi(rounded.substr(rounded.find('e') + 1));
  if (*value != 0.0 && (exponent < -4 || exponent >= 6)) {
    return fmt::format("{:.{}g}", *value, digits);
  }
  return fmt::format("{:.{}f}", std::stod(rounded), std::max(0, digits - 1 - exponent));
}

std::string times_text(const Ratio& ratio) {
  const double width = (ratio.interval.high - ratio.interval.low) / ratio.ratio;
  return with_digits(ratio.ratio, std::min(digits_of(width), kUnknown));
}

std::string percent_of_bound_text(const Measured& cell) {
  const std::optional<double> percent = cell.median_of("percent_of_limit");
  constexpr double kLeast = 0.1;
  return percent && *percent > 0.0 && *percent < kLeast ? "<0.1" : with_digits(percent, 2);
}

std::string pass_ms_text(const Measured& cell) {
  return pooled_text(cell.median_of("ms_per_iteration"), pass_costs(cell).ms());
}

std::string whole_ms_text(const Measured& cell) {
  return pooled_text(cell.median_of("whole_ms"), whole_costs(cell).ms());
}

std::string run_ms_text(const Measured& cell) {
  return pooled_text(cell.median_of("median_ms"), cell.runs_ms());
}

std::string single_ms_text(const Measured& cell, std::optional<double> ms) {
  const Rounds runs = cell.runs_ms();
  if (runs.empty()) {
    return with_digits(ms, kUnknown);
  }
  // Half of all samples lie within one deviation; nearly all within three.
  return with_digits(ms, digits_of(6.0 * deviation_of_rounds(runs) / median_of_rounds(runs)));
}

std::string ratio_text(double ratio, const Interval& interval, bool is_range) {
  const double width = interval.high - interval.low;
  const int decimals =
      width > 0.0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(width))) + 1, 1, 3) : 3;
  return is_range ? fmt::format("{:.{}f} ({:.{}f} .. {:.{}f})", ratio, decimals, interval.low,
                                decimals, interval.high, decimals)
                  : fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", ratio, decimals, interval.low,
                                decimals, interval.high, decimals);
}

} // namespace clusterbench

#include "harness/report/digits.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace clusterbench {
namespace {

constexpr int kMost = 4;
constexpr int kUnknown = 3; ///< of one sample

std::string rounded_text(double value, int digits) {
  return fmt::format("{:.{}e}", value, digits - 1);
}

// Of the leading digit, once the value is rounded: 9.98 has two digits as 10.
int exponent_of(const std::string& rounded) {
  return std::stoi(rounded.substr(rounded.find('e') + 1));
}

bool needs_exponent(double value, int exponent) {
  return value != 0.0 && (exponent < -4 || exponent >= 6);
}

// Rounded at a power of ten.
std::string at_place(double value, int place) {
  const double unit = place > 0 ? std::pow(10.0, place) : 1.0;
  const double rounded = place > 0 ? std::round(value / unit) * unit : value;
  return fmt::format("{:.{}f}", rounded, std::max(-place, 0));
}

double relative_width(const Rounds& rounds) {
  const PooledRounds pooled = pool_rounds(rounds);
  return (pooled.interval.high - pooled.interval.low) / pooled.median;
}

int digits_of_rounds(const Rounds& rounds) {
  return rounds.empty() ? kUnknown : digits_of(relative_width(rounds));
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
  const std::string rounded = rounded_text(*value, digits);
  const int exponent = exponent_of(rounded);
  return needs_exponent(*value, exponent) ? fmt::format("{:.{}g}", *value, digits)
                                          : at_place(std::stod(rounded), exponent - digits + 1);
}

std::string ms_text(double ms, const Interval& interval) {
  return with_digits(ms, digits_of((interval.high - interval.low) / ms));
}

std::string ms_text(double ms, const Interval& interval, bool is_range) {
  const int digits = digits_of((interval.high - interval.low) / ms);
  const int exponent = exponent_of(rounded_text(ms, digits));
  const auto end = [&](double value) {
    return needs_exponent(ms, exponent) ? with_digits(value, digits)
                                        : at_place(value, exponent - digits + 1);
  };
  const std::string low = end(interval.low), high = end(interval.high);
  return ms_text(ms, interval) +
         (is_range ? fmt::format(" ({} .. {})", low, high) : fmt::format(" [{}, {}]", low, high));
}

std::string times_text(const Ratio& ratio) {
  const double width = (ratio.interval.high - ratio.interval.low) / ratio.ratio;
  return with_digits(ratio.ratio, std::min(digits_of(width), kUnknown));
}

std::string percent_of_bound_text(std::optional<double> percent) {
  constexpr double kLeast = 0.1;
  return percent && *percent > 0.0 && *percent < kLeast ? "<0.1" : with_digits(percent, 2);
}

std::string percent_of_bound_text(const Measured& cell) {
  return percent_of_bound_text(cell.median_of("percent_of_limit"));
}

int pass_ms_digits(const Measured& cell) {
  return digits_of_rounds(pass_costs(cell).ms());
}

int whole_ms_digits(const Measured& cell) {
  return digits_of_rounds(whole_costs(cell).ms());
}

std::string pass_ms_text(const Measured& cell) {
  return with_digits(cell.median_of("ms_per_iteration"), pass_ms_digits(cell));
}

std::string whole_ms_text(const Measured& cell) {
  return with_digits(cell.median_of("whole_ms"), whole_ms_digits(cell));
}

std::string run_ms_text(const Measured& cell) {
  return with_digits(cell.median_of("median_ms"), digits_of_rounds(cell.runs_ms()));
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
  if (is_range && width <= 0.0) {
    return with_digits(ratio, 2) + " (one sample)";
  }
  const int least = interval.low >= 10.0 && width >= 1.0 ? 0 : 1; // of 53 in 43 to 70
  const int decimals =
      width > 0.0 ? std::clamp(static_cast<int>(std::ceil(-std::log10(width))) + 1, least, 3) : 2;
  // Where an end would be 0 or all would be hundreds with a decimal, digits count, not decimals.
  const auto text = [&](double value) {
    return interval.low < 0.1 || interval.high >= 100.0
               ? with_digits(value, digits_of(width / ratio))
               : fmt::format("{:.{}f}", value, decimals);
  };
  const std::string low = text(interval.low), high = text(interval.high);
  return text(ratio) +
         (is_range ? fmt::format(" ({} .. {})", low, high) : fmt::format(" [{}, {}]", low, high));
}

} // namespace clusterbench

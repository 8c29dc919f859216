// As many digits of a figure as its interval bears out.
#pragma once

#include "harness/ledger/measurements.hpp"
#include "harness/ledger/ratio.hpp"

#include <optional>
#include <string>

namespace clusterbench {

/// How many digits a figure is worth whose interval is so wide, as a share of it: two at 10 % and
/// more, since one alone may move it by a third, three at 1 %, never more than four.
int digits_of(double relative_width);

/// Rounded to so many digits, without an exponent between 0.0001 and a million; empty for what is
/// not known. Digits that count stay, zeros included.
std::string with_digits(std::optional<double> value, int digits);

/// Times of a cell with the digits that its samples bear out: of a pass, of a whole answer, of a
/// run.
std::string pass_ms_text(const Measured& cell);
std::string whole_ms_text(const Measured& cell);
std::string run_ms_text(const Measured& cell);
/// How many those digits are.
int pass_ms_digits(const Measured& cell);
int whole_ms_digits(const Measured& cell);
/// A time of single runs, one of each round: worth what one sample is, not what their median is.
std::string single_ms_text(const Measured& cell, std::optional<double> ms);

/// "1.034 [1.021, 1.047]", or of few samples or rounds "1.03 (0.98 .. 1.11)": a time [ms] with the
/// digits that its interval bears out, and the interval's ends to the same place.
std::string ms_text(double ms, const Interval& interval, bool is_range);
/// The time alone.
std::string ms_text(double ms, const Interval& interval);

/// How many times longer, without its interval; at most three digits.
std::string times_text(const Ratio& ratio);
/// The share of the model bound that a pass reaches, without the sign of per cent: two digits,
/// which is what a probe is worth.
std::string percent_of_bound_text(std::optional<double> percent);
std::string percent_of_bound_text(const Measured& cell);

/// "1.034 [1.021, 1.047]", or of few samples or rounds "1.03 (0.98 .. 1.11)"; decimals by the
/// interval.
std::string ratio_text(double ratio, const Interval& interval, bool is_range);

} // namespace clusterbench

// How many pairs are enough, and what they say: the gate's decision on one cell.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

/// The trimmed mean of pairs' log ratios and its standard error from the winsorised deviation
/// (Tukey and McLaughlin 1963; 20 % are trimmed on each side): a few wild pairs move neither.
struct PairEstimate {
  double log_ratio = 0.0;
  double standard_error = 0.0;
  std::size_t degrees = 0; ///< of freedom, for Student's t
};

/// Throws std::invalid_argument for fewer than two pairs.
PairEstimate estimate_pairs(std::span<const double> log_ratios);

struct SequentialOptions {
  double min_effect = 0.02;   ///< a slowdown that must be found
  double noise_floor = 0.005; ///< of one pair, as a standard deviation; calibrated or assumed
  std::size_t least_pairs = 6, most_pairs = 96;
};

enum class GateDecision { same, slower, more, undecided };

/// Looks at all pairs so far. `slower`: the 99 % lower bound of the slowdown exceeds half the minimum
/// effect. `same`: the 99 % upper bound is below the minimum effect. Both use Student's t, and a
/// standard error not below what the noise floor implies, so that few pairs that agree by luck decide
/// nothing. At the last look, where `more` is not to be had, 90 % are enough for `same`, and for
/// `slower` an estimate beyond the minimum effect whose 99 % lower bound is above zero.
GateDecision decide(std::span<const double> log_ratios, const SequentialOptions& options,
                    bool last_look);

/// Whether `count` pairs are one of the looks: 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96. Few
/// looks, few chances to err.
bool is_look(std::size_t count, const SequentialOptions& options);

/// The bounds that decide() compares, one-sided 99 %.
struct Bounds {
  double low = 0.0, high = 0.0;
};
Bounds bounds_of(const PairEstimate& estimate, std::size_t pairs, const SequentialOptions& options);

} // namespace clusterbench

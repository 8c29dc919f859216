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
  std::size_t least_pairs = 6, most_pairs = 160;
  /// That an end of a range excludes the true slowdown, in any look of a batch.
  double error = 0.04;
  /// The same of the lower end that `slower` asks for.
  double alarm_error = 0.04;
};

/// Of the batch that has to confirm an alarm. Its range errs in 1 %, so that both batches' together
/// err in 5 %; and its alarms in 5 % divided by the number of cells (Bonferroni), so that a gate of
/// many cells raises no more false ones than a gate of one.
SequentialOptions confirming(const SequentialOptions& first, std::size_t cells);

enum class GateDecision { same, slower, more, undecided };

/// Looks at all pairs so far. `slower`: the lower bound of the slowdown exceeds half the minimum
/// effect. `same`: the upper bound is below the minimum effect. Both use Student's t, and a
/// standard error not below what the noise floor implies, so that few pairs that agree by luck
/// decide nothing. At the last look, where `more` is not to be had, an estimate beyond the minimum
/// effect whose lower bound is above zero is enough for `slower`.
///
/// Whoever looks often errs more often. Each look therefore spends a twentieth of the error that is
/// allowed, and the last one, on which a noisy cell depends, a half: simulated, that adds up to the
/// whole of it at most, because looks at the same pairs err together.
GateDecision decide(std::span<const double> log_ratios, const SequentialOptions& options,
                    bool last_look);

/// Whether `count` pairs are one of the looks: 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96,
/// 128, 160. Few looks, little error for each of them to share.
bool is_look(std::size_t count, const SequentialOptions& options);

/// The range of log(ratio) at one look; the ranges of all looks of a batch hold the true one but
/// for `error` on each side.
struct Bounds {
  double low = 0.0, high = 0.0;
};
Bounds bounds_of(const PairEstimate& estimate, std::size_t pairs, const SequentialOptions& options,
                 bool last_look);

} // namespace clusterbench

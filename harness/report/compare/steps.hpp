// A step in a series of campaigns that no single one of them tells.
#pragma once

#include "harness/ledger/rounds.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace clusterbench {

/// Fewer campaigns on one side of a step tell nothing.
inline constexpr std::size_t kLeastCampaigns = 3;

struct Step {
  std::size_t at = 0; ///< the first of the series after it
  double ratio = 1.0; ///< after / before
  Interval interval;  ///< of the ratio, 95 %
  double p = 1.0;     ///< of a step as clear at any place, where there is none
};

/// The clearest step of a series, if it is of at least min_effect (0.02 is 2 %) and clear enough.
/// logs: the logarithm of each campaign's time, in order. scatter: the least that equal campaigns'
/// logarithms differ by (standard deviation), also where these differ by less.
///
/// level: how often a series without a step may have one, of all looks together, if it is asked
/// again with each campaign that it gains. Look k has 20 / ((k + 19) (k + 20)) of it.
///
/// Of each place the two-sided t test of the campaigns before and after it, with one variance, and
/// Bonferroni's bound for the places. Where neighbours are alike, as on a machine that is slow for
/// days, there are fewer independent campaigns: the variance of the residuals is stretched by
/// (1 + r) / (1 - r) for their correlation r of neighbours. That tells such days from a step only
/// in part: docs/history.md says how often it does not.
std::optional<Step> clearest_step(const std::vector<double>& logs, double scatter,
                                  double min_effect, double level);

} // namespace clusterbench

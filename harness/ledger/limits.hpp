// How far a time is from what the machine can do: the probe's figures applied to one cell.
#pragma once

#include "harness/problem/problem_spec.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

/// The least that the algorithm itself must do in one pass, whatever the implementation.
struct MinimalWork {
  double bytes = 0;       ///< every point read once, with its weight if it has one
  double flops = 0;       ///< 2 n k d for the distances; FCM again as much for the weighted sums
  double comparisons = 0; ///< n (k - 1) scores beyond the first one of a point; FCM has none
};
MinimalWork minimal_work(Family family, Precision precision, std::size_t n, std::size_t d,
                         std::size_t k, bool weighted = false);

/// Adds what follows from a row's samples: median, MAD, interval and outliers, passes and time per
/// pass (medians over samples), points * centroids per second, GB/s and GFLOP/s of the minimal
/// work, and the percentage of the limit with the limit's name. `limits` is the output of
/// `clusterbench probe`; without it the percentage is left out. Rows without samples are left
/// alone.
void add_derived_figures(nlohmann::json& row, const nlohmann::json& limits);

/// Why `limits` give such a row no percentage, without a point at the end; empty if they give it
/// one.
std::string why_no_limit(const nlohmann::json& row, const nlohmann::json& limits);

} // namespace clusterbench

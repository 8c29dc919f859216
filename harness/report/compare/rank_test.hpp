// Do two sets of samples come from one distribution? Tests by ranks, and their correction for many.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace clusterbench {

/// The two-sided p-value of the U test (Mann and Whitney 1947): exact where one set has at most 8
/// samples and none are tied, otherwise by the normal approximation with corrections for ties and
/// continuity. 1 if all samples are equal. Throws std::invalid_argument for an empty set.
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

/// The least p-value that so many samples without ties can have: that of sets which do not overlap.
double least_mann_whitney_p(std::size_t n, std::size_t m);

/// The two-sided p-value of the signed-rank test (Wilcoxon 1945): are these differences of pairs as
/// often above 0 as below, and as far? Exact for up to 50 differences without ties or zeros,
/// otherwise by the normal approximation with the correction for ties; zeros are left out. 1 where
/// all are zero.
double signed_rank_p(std::span<const double> differences);

/// The least p-value that so many differences can have: of those that are all on one side.
double least_signed_rank_p(std::size_t n);

/// The p-values of a family of tests, adjusted so that rejecting those <= q keeps the expected
/// share of false rejections at q (Benjamini and Hochberg 1995). In the order given.
std::vector<double> benjamini_hochberg(std::span<const double> p_values);

} // namespace clusterbench

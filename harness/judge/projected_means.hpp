// The weighted means of fuzzy c-means, compared along one random direction: n (d + k) operations
// where all features take n k d.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/problem/problem.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace clusterbench {

/// Whether sum_f r_f * produced[j, f] is the mean of sum_f r_f * x_f weighted by u^m, for secret
/// signs and scales r. A wrong mean shows unless its features happen to make up for each other.
template <typename T>
std::optional<std::string> wrong_projected_mean(const Declaration& declared,
                                                const Problem<T>& problem,
                                                std::span<const T> memberships,
                                                std::span<const T> produced, std::uint64_t seed);

} // namespace clusterbench

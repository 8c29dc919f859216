// Whether fuzzy c-means collapsed. With a large fuzzifier or many features every sample belongs to
// all centres alike, and all centres run to the mean of the samples. That is a right answer to a
// problem that says nothing about clusters, so its reader should know.
#pragma once

#include "harness/problem/problem.hpp"

#include <cstddef>
#include <span>

namespace clusterbench {

/// How many of the centres [k, d] are apart: farther from every one counted before than a
/// thousandth of the points' root mean squared distance to their mean. At least 1.
template <typename T>
std::size_t centres_apart(const Problem<T>& problem, std::span<const T> centres);

} // namespace clusterbench

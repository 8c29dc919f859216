// Whether two answers of one variant from one start are the same.
#pragma once

#include "harness/judge/report.hpp"
#include "harness/problem/problem.hpp"

#include <optional>
#include <string>

namespace clusterbench {

/// Where the bits of two answers differ.
template <typename T>
std::optional<std::string> other_bits(const JudgedAnswer<T>& recorded,
                                      const JudgedAnswer<T>& timed);

/// Whether objectives, with the labels or memberships as returned, differ by more than rounding may
/// do; the one after more passes may be lower. Writes both into the verdict.
template <typename T>
std::optional<std::string> other_objective(const Declaration& declared, const Problem<T>& problem,
                                           const JudgedAnswer<T>& recorded,
                                           const JudgedAnswer<T>& timed, Verdict& verdict);

} // namespace clusterbench

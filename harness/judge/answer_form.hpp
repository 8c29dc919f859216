// The form of an answer: everything that must hold before anything can be computed.
#pragma once

#include "harness/judge/report.hpp"
#include "harness/problem/problem.hpp"

namespace clusterbench {

/// Checks sizes, the pass count, the range of labels, and that all values are finite; what is wrong
/// goes to the report. Where this is false, nothing else may look at the answer.
template <typename T>
bool has_right_form(bool fcm, const Problem<T>& problem, const Answer<T>& answer, Report& report);

} // namespace clusterbench

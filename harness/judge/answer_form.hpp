// The form of an answer: everything that must hold before anything can be computed.
#pragma once

#include "harness/judge/report.hpp"
#include "harness/problem/problem.hpp"

namespace clusterbench {

/// Checks sizes, the pass count, that all memory was written, the range of labels, and that all
/// values are finite; what is wrong goes to the report. Where this is false, nothing else may look
/// at the answer.
template <typename T>
bool has_right_form(bool fcm, const Problem<T>& problem, const JudgedAnswer<T>& answer,
                    Report& report);

/// The answer without the entering centroids that a single pass from memberships leaves unwritten.
template <typename T>
JudgedAnswer<T> without_unwritten(const Problem<T>& problem, JudgedAnswer<T> answer) {
  if (!problem.memberships.empty() && answer.iterations <= 1) {
    answer.entering = {};
  }
  return answer;
}

} // namespace clusterbench

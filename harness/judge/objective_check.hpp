// Objectives of an answer's passes: that they never rise, that they are the oracle's, and that
// rounding decides no more than it may.
#pragma once

#include "harness/judge/report.hpp"
#include "harness/judge/run_view.hpp"
#include "harness/problem/problem.hpp"

namespace clusterbench {

/// oracle: nullptr for a single pass from a given state, and for a run that is judged by itself.
/// Writes objectives and trace into the report's verdict.
template <typename T>
void judge_objectives(const Declaration& declared, const Problem<T>& problem,
                      const JudgedAnswer<T>& answer, const RunView<T>& run, const OracleRun* oracle,
                      const VerifyOptions& options, Report& report);

} // namespace clusterbench

// The process of a cell that is timed: whole answers first, then samples of runs.
#pragma once

#include "harness/campaign/cell_memory.hpp"
#include "harness/campaign/cell_task.hpp"
#include "harness/campaign/sampling.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

/// Starts the process, takes whole answers and samples, each from a start that no process of this
/// variant has seen before, and hands every answer to `accept` before the next start is sent.
/// Returns what the row says of it (docs/timing.md):
///
/// - start_ms, context_ms, cold_ms; whole_ms (median), whole: a list with every window;
/// - samples_ms, sample_starts, sample_iterations, cpu_ms, the same of warm-up samples, own_start;
/// - fixed_work_us, other_tasks: how fast the processor was around each sample, and who else ran;
/// - gpus_used_by_others: the same of GPUs, before the process began;
/// - disturbances, memory, what the sandbox lacks, clock.
///
/// Throws WorkerFailure.
template <typename T>
nlohmann::json time_cell(const CellTask<T>& cell, const SamplingPlan& plan, const std::string& name,
                         const std::function<void(TakenAnswer<T>&&)>& accept);

} // namespace clusterbench

// The child's side of a cell: it runs the jobs that its parent describes and reports on each.
#pragma once

namespace clusterbench {

/// Reads {"jobs": [...], "hidden_folder": path, "memory_limit": bytes, "file_limit": bytes, "parent":
/// process} from `job_fd`, runs the jobs in order and writes one line of JSON per job to `report_fd`.
/// Returns the process's exit code; a failing job is a report and no failure of the process.
int run_child(int job_fd, int report_fd);

} // namespace clusterbench

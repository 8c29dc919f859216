// The build's side of the pace protocol: holds a prepared variant and runs it when told to.
#pragma once

namespace clusterbench {

/// Serves the jobs of the request, then returns the process's exit code. See pace_protocol.hpp.
int run_pace(int request_fd, int control_fd);

} // namespace clusterbench

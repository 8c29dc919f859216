// Limits of this process, as `ulimit` sets them, under which it would not work.
#pragma once

#include <string>

namespace clusterbench {

/// Raises the limits of open files and of the stack to what a campaign needs, where that is
/// allowed. Says which one is too low for any command: "at most 16 files may be open (ulimit -n);
/// 64 are needed". Empty if all is well.
std::string too_low_limit();

/// What keeps another thread or process from being started where the system says EAGAIN: "no thread
/// or process could be started: the limit of processes is reached (ulimit -u 3), or there is no
/// memory for its stack".
std::string why_none_can_start();

/// Throws std::runtime_error where a campaign may not have as many files open as it needs.
void require_open_files();

} // namespace clusterbench

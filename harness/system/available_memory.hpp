// How much memory there is to be had.
#pragma once

#include <cstddef>
#include <optional>

namespace clusterbench {

/// Memory that can be taken without swapping, within the control group's limit. Throws
/// std::runtime_error if /proc/meminfo cannot be read.
std::size_t available_memory_bytes();

/// How many processes the kernel has ended for want of memory since the machine started; nothing
/// where it does not say.
std::optional<std::size_t> processes_ended_for_memory();

} // namespace clusterbench

// How much memory there is to be had.
#pragma once

#include <cstddef>

namespace clusterbench {

/// Memory that can be taken without swapping, within the control group's limit. Throws
/// std::runtime_error if /proc/meminfo cannot be read.
std::size_t available_memory_bytes();

} // namespace clusterbench

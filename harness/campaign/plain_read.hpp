// How long reading the points takes when nothing is done with them.
#pragma once

#include "harness/problem/workload.hpp"

#include <cstddef>

namespace clusterbench {

/// Seconds of one sequential read of `bytes` of a file, one thread and one block after another, by
/// the descriptor that a variant is given. Throws datasets::InputError.
double plain_read_seconds(const PointsPlace& place, std::size_t bytes);

} // namespace clusterbench

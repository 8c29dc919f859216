// How a rank comes by its rows where no process holds all of them: it makes them, or reads them.
#pragma once

#include "harness/worker/protocol.hpp"
#include "harness/worker/shards.hpp"

#include <span>

namespace clusterbench {

/// Fills values, [rows, d], with those rows of the request's points: made by itself if they are of
/// a dataset that is generated, else read from the file. A few megabytes beside them are in memory
/// meanwhile, and none of it in the kernel's cache afterwards. Throws std::runtime_error.
template <typename T>
void fill_rank_rows(const PointsRequest& request, RowRange rows, std::span<T> values);

} // namespace clusterbench

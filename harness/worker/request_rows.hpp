// How a worker comes by its rows where no process holds all of them: it makes them, or reads them.
#pragma once

#include "harness/worker/protocol.hpp"
#include "harness/worker/shards.hpp"

#include <span>

namespace clusterbench {

/// Fills values, [rows, d], with those rows of the request's points, from their file. A few
/// megabytes beside them are in the kernel's cache meanwhile, hardly any of them afterwards. Throws
/// std::runtime_error.
template <typename T>
void read_rows(const PointsRequest& request, RowRange rows, std::span<T> values);

/// The same, but makes them if they are of a dataset that is generated.
template <typename T>
void make_or_read_rows(const PointsRequest& request, RowRange rows, std::span<T> values);

} // namespace clusterbench

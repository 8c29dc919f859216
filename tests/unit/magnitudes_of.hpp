// What a kernel finds out about rows in device memory, of rows on the host.
#pragma once

#include "impls/cuda/common/magnitudes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace clusterbench::cuda {

/// rows: [., d]
inline Magnitudes magnitudes_of(std::span<const float> rows, std::size_t d) {
  Magnitudes found;
  found.largest.resize(d);
  for (std::size_t i = 0; i < rows.size(); i += d) {
    const double length = longest_row(rows.subspan(i, d), d);
    found.longest = std::max(found.longest, length);
    found.shortest = length > 0.0 ? std::min(found.shortest, length) : found.shortest;
    for (std::size_t f = 0; f < d; ++f) {
      found.finite = found.finite && std::isfinite(rows[i + f]);
      found.largest[f] = std::max(found.largest[f], std::abs(rows[i + f]));
    }
  }
  return found;
}

} // namespace clusterbench::cuda

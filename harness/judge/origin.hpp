// The point from which a variant measures its coordinates: rounding is relative to what is left of
// them. It is zero, or the mean of all points where the variant declares that it takes that off.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/problem/problem.hpp"

#include <vector>

namespace clusterbench {

struct Origin {
  std::vector<double> at;       ///< [d]
  std::vector<double> in_doubt; ///< [d] how far the variant's own may be from it
  bool is_mean = false;         ///< of all points, and not zero
};

template <typename T>
Origin origin_of(const Declaration& declared, const Problem<T>& problem);

} // namespace clusterbench

// What tells without starting a variant that it does not take a cell.
#pragma once

#include "harness/problem/registry.hpp"
#include "harness/problem/workload.hpp"

#include <cstddef>
#include <string>

namespace clusterbench {

/// What a campaign leaves to each cell.
struct Allowance {
  std::size_t memory = 0;        ///< bytes for everything, the points in their file; 0: none
  std::size_t device_memory = 0; ///< bytes of each device that a GPU variant is left; 0: all
  int gpus = 1, ranks = 1;
};

/// Why the variant's description excludes a problem; empty if it does not.
std::string declared_refusal(const KnownVariant& variant, const Shape& shape, Family family);

/// Why the variant does not take the cell: its precision, its description, or the memory that it is
/// left; empty if nothing speaks against it. shape: of the problem.
std::string refusal_before_start(const KnownVariant& variant, const Workload& work,
                                 const Shape& shape, const Allowance& allowed);

} // namespace clusterbench

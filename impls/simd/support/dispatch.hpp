// The kernels of every instruction set that this processor executes.
#pragma once

#include "impls/simd/support/kernels.hpp"

#include <vector>

namespace clusterbench::simd {

/// The narrowest first. Decided when the program runs, not when it is compiled.
template <typename T>
std::vector<const Kernels<T>*> executable_kernels();

} // namespace clusterbench::simd

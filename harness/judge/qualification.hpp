// Small awkward problems on which one lost row shows. Every variant takes them before its first
// timed cell, and they are always verified exhaustively.
#pragma once

#include "harness/judge/owned_problem.hpp"

#include <vector>

namespace clusterbench {

/// The fixed list of a family. The caller leaves out what a variant's Meta or refuse() excludes.
/// Each is to be run from both starts in one process, and each answer verified with verify_answer()
/// against its own run_oracle(): whoever hands over the first answer twice is found.
template <typename T>
std::vector<OwnedProblem<T>> qualification_problems(Family family);

} // namespace clusterbench

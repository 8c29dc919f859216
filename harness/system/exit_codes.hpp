// The exit codes of the program, and which one wins when several apply.
#pragma once

#include <algorithm>
#include <array>

namespace clusterbench {

enum class ExitCode : int {
  ok = 0,
  regression = 1,
  wrong_result = 2,
  inconclusive = 3,
  environment_mismatch = 4, ///< or a ledger that is not as it was written
  cells_missing = 5,        ///< missing, crashed or timed out
  nothing_measured = 6,     ///< every cell is refused or not available here
  usage = 64,               ///< usage or bad input
  cannot_write = 74,
  interrupted = 130
};

/// The graver of two: the first in this order applies.
inline ExitCode graver(ExitCode a, ExitCode b) {
  constexpr std::array kByGravity = {ExitCode::usage,
                                     ExitCode::cannot_write,
                                     ExitCode::interrupted,
                                     ExitCode::wrong_result,
                                     ExitCode::cells_missing,
                                     ExitCode::environment_mismatch,
                                     ExitCode::regression,
                                     ExitCode::inconclusive,
                                     ExitCode::nothing_measured,
                                     ExitCode::ok};
  const auto rank = [&](ExitCode code) { return std::ranges::find(kByGravity, code); };
  return rank(a) < rank(b) ? a : b;
}

} // namespace clusterbench

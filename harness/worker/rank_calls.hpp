// MPI for the runner, which is built without it: a plug-in beside it holds the calls.
#pragma once

#include <atomic>
#include <string>

namespace clusterbench {

/// The harness's own calls of MPI, for one thread. All ranks make the same ones.
struct RankCalls {
  /// Joins the ranks that mpirun has started; before all others. Throws std::runtime_error.
  void (*open)() = nullptr;
  int (*rank)() = nullptr;  ///< the number of this one
  int (*world)() = nullptr; ///< how many there are
  /// Waits until every rank is here.
  void (*barrier)() = nullptr;
  std::string (*version)() = nullptr; ///< of the library
  /// From now on a call of MPI_Abort makes it true.
  void (*note_abort_in)(std::atomic<bool>& has_aborted) = nullptr;
};

/// Loads the plug-in at the first call. Throws std::runtime_error where there is none.
const RankCalls& rank_calls();

} // namespace clusterbench

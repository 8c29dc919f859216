#include "harness/worker/rank_calls.hpp"

#include "harness/worker/plugin.hpp"

namespace clusterbench {

const RankCalls& rank_calls() {
  // Global, so that a module's MPI_Abort is the plug-in's.
  static const auto* const calls = static_cast<const RankCalls*>(
      calls_of_plugin("ranks", "clusterbench_rank_calls", RTLD_GLOBAL));
  return *calls;
}

} // namespace clusterbench

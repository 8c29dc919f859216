#include "harness/worker/rank_calls.hpp"

#include "harness/worker/plugin.hpp"

namespace clusterbench {

const RankCalls& rank_calls() {
  static const auto* const calls =
      static_cast<const RankCalls*>(calls_of_plugin("ranks", "clusterbench_rank_calls"));
  return *calls;
}

} // namespace clusterbench

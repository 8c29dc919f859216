// Was the last pass really the last one that the stop rule asks for?
#pragma once

#include "harness/judge/point_selection.hpp"
#include "harness/judge/run_view.hpp"

#include <optional>
#include <string>

namespace clusterbench {

/// What there is to say about the end of a run.
struct StopFindings {
  std::optional<std::string> violation;
  bool too_coarse = false; ///< rounding of the loss exceeds its threshold: hardly anything offends
  bool early_stop = false; ///< fixed number of iterations, fewer made, but at a fixed point
};

/// Judges in float64 from the centroids of each pass. A rule must be met by the last pass and by
/// none before it, unless rounding in T may hide it.
/// sample: where looking at all points once more may be too much, those to look at; else nullptr.
template <typename T>
StopFindings check_stop(const Declaration& declared, const Problem<T>& problem,
                        const JudgedAnswer<T>& answer, const RunView<T>& run,
                        const PointSelection* sample);

} // namespace clusterbench

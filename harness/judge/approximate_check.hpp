// How a variant is judged that does not claim exact labels (Meta::approximate_within).
#pragma once

#include "harness/judge/point_selection.hpp"
#include "harness/judge/report.hpp"
#include "harness/problem/problem.hpp"

namespace clusterbench {

/// Counts the labels of `points` that differ from the exact step. Centroids may be away from the
/// means of the labels or memberships by what raises the objective by the declared share; those of
/// memberships are looked at only if `points` are all.
template <typename T>
void judge_approximate_step(const Declaration& declared, const Problem<T>& problem,
                            const JudgedAnswer<T>& answer, const PointSelection& points,
                            Report& report);

/// The same, that no pass was left out, and that the objective of the returned centroids exceeds
/// the oracle's (nullptr: unknown) by no more than the declared share. The verdict says by how
/// much.
template <typename T>
void judge_approximately(const Declaration& declared, const Problem<T>& problem,
                         const JudgedAnswer<T>& answer, const OracleRun* oracle,
                         const PointSelection& points, Report& report);

} // namespace clusterbench

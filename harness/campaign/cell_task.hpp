// What the processes of one cell have in common.
#pragma once

#include "harness/judge/verifier.hpp"
#include "harness/problem/starts.hpp"
#include "harness/problem/workload.hpp"
#include "harness/worker/worker.hpp"

#include <cstddef>
#include <vector>

namespace clusterbench {

/// Starts of whole answers are numbered from here on; below are those of samples, in their order.
inline constexpr std::size_t kFirstOfWholeAnswers = 1'000'000;

/// A cell in its precision, and the starts that all variants of its problem get.
template <typename T>
struct CellTask {
  const KnownVariant& variant;
  const Workload& work;
  Problem<T> problem; ///< with the problem's own start
  StartSequence<T> starts;
  /// The samples whose answers are judged in full, the one from the own start among them. Secret.
  std::vector<std::size_t> judged;
  std::size_t first_late;   ///< the first sample that a process need not make
  std::size_t judged_whole; ///< of the whole answers, counted from 0; likewise
  std::uint64_t seed;       ///< the campaign's secret
  WorkerOptions options;

  std::size_t own_position() const { return starts.own_position(); }
  /// Whether the start is one of a sample that a process need not make.
  bool is_late(std::size_t start) const {
    return start >= first_late && start < kFirstOfWholeAnswers;
  }
  /// The start of that number.
  std::vector<T> start(std::size_t number) const {
    return number < kFirstOfWholeAnswers ? starts.at(number) : starts.drawn(number);
  }
  /// The problem from another start; the span must outlive it.
  Problem<T> problem_from(std::span<const T> start) const {
    Problem<T> other = problem;
    (problem.centroids.empty() ? other.memberships : other.centroids) = start;
    return other;
  }
};

/// seed: the secret of the starts. least_samples: that a process takes of the cell. Workload and
/// variant must outlive the task.
template <typename T>
CellTask<T> make_cell_task(const KnownVariant& variant, const Workload& work, std::uint64_t seed,
                           std::size_t least_samples, WorkerOptions options) {
  const Problem<T> problem = work.problem<T>(options.threads);
  return {
      variant,
      work,
      problem,
      StartSequence<T>(work.spec.init.kind, problem, work.hash, seed, /*round=*/0, least_samples),
      judged_positions(seed, work.hash, least_samples),
      least_samples,
      seed % 3,
      seed,
      std::move(options)};
}

} // namespace clusterbench

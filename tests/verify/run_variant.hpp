// Runs a variant as the harness does, in this process, and keeps what it hands over.
#pragma once

#include "harness/verifier.hpp"
#include "impls/contract.hpp"

#include <cstdint>
#include <vector>

namespace clusterbench {

/// Keeps the centroids of every pass.
template <typename T>
class KeepingObserver final : public Observer<T> {
public:
  bool recording() const override { return true; }
  void pass(std::span<const T> centroids) override {
    kept.insert(kept.end(), centroids.begin(), centroids.end());
  }
  std::vector<T> kept;
};

/// An answer that owns its arrays.
template <typename T>
struct OwnedAnswer {
  std::vector<std::int32_t> labels;
  std::vector<T> centroids;
  std::vector<T> memberships;
  std::vector<T> recorded;
  std::size_t iterations = 0;

  Answer<T> view() const { return {labels, centroids, memberships, iterations, recorded}; }
};

/// One recorded run of a prepared variant, and its answer.
template <typename T>
OwnedAnswer<T> run_once(Variant<T>& variant, Family family, const Problem<T>& problem) {
  KeepingObserver<T> observer;
  variant.run(observer);
  OwnedAnswer<T> answer;
  answer.labels.assign(problem.n, -1);
  answer.centroids.resize(problem.k * problem.d);
  answer.memberships.resize(family == Family::fcm ? problem.n * problem.k : 0);
  Result<T> result{answer.labels, answer.centroids, answer.memberships, 0};
  variant.fetch(result);
  answer.iterations = result.iterations;
  answer.recorded = std::move(observer.kept);
  return answer;
}

} // namespace clusterbench

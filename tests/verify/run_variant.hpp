// What the tests of the verifier share: running a variant as the harness does, but in this process,
// and problems of overlapping clouds.
#pragma once

#include "harness/judge/qualification.hpp"
#include "harness/judge/verifier.hpp"
#include "impls/contract.hpp"
#include "tests/verify/planted_bugs.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
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
  std::vector<T> entering;
  std::vector<T> memberships;
  std::vector<T> recorded;
  std::size_t iterations = 0;

  JudgedAnswer<T> view() const {
    return {labels, centroids, entering, memberships, iterations, recorded};
  }
};

/// `count` values whose bytes are all 0xFF, as the harness fills the memory of an answer.
template <typename Value>
std::vector<Value> poison(std::size_t count) {
  std::vector<Value> values(count);
  std::memset(values.data(), 0xFF, count * sizeof(Value));
  return values;
}

template <typename T>
void prepare(Variant<T>& variant, const Problem<T>& problem) {
  variant.prepare(problem.shape(), {problem.points, 0, problem.weights});
}

/// One recorded run of a prepared variant from the problem's start, and its answer.
template <typename T>
OwnedAnswer<T> run_once(Variant<T>& variant, Family family, const Problem<T>& problem) {
  KeepingObserver<T> observer;
  OwnedAnswer<T> owned;
  owned.labels = poison<std::int32_t>(problem.n);
  owned.centroids = poison<T>(problem.k * problem.d);
  owned.entering = poison<T>(problem.k * problem.d);
  owned.memberships = poison<T>(family == Family::fcm ? problem.n * problem.k : 0);
  Answer<T> answer{owned.labels, owned.centroids, owned.entering, owned.memberships, 0};
  variant.run(problem.start(), answer, observer);
  owned.iterations = answer.iterations;
  owned.recorded = std::move(observer.kept);
  return owned;
}

/// A variant with a bug, or a correct one.
template <typename T>
std::unique_ptr<Variant<T>> make(Family family, planted::Bug bug,
                                 DistanceForm form = DistanceForm::difference) {
  if (family == Family::kmeans) {
    return std::make_unique<planted::PlantedKMeans<T>>(bug, form);
  }
  return std::make_unique<planted::PlantedFcm<T>>(bug, form);
}

inline Meta meta_of(Family family, DistanceForm form = DistanceForm::difference) {
  Meta meta;
  meta.name = "planted";
  meta.family = family;
  meta.distance = form;
  return meta;
}

/// The answer of a correct variant.
template <typename T>
OwnedAnswer<T> solve(const Meta& meta, const Problem<T>& problem) {
  const auto variant = make<T>(meta.family, planted::Bug::none, meta.distance);
  prepare(*variant, problem);
  return run_once(*variant, meta.family, problem);
}

/// Overlapping normal clouds in T; `offset` moves them away from the origin.
template <typename T>
OwnedProblem<T> clouds(std::size_t n, std::size_t d, std::size_t k, std::size_t passes,
                       double offset = 0.0) {
  OwnedProblem<T> problem;
  problem.n = n;
  problem.d = d;
  problem.k = k;
  problem.stop = {StopRule::Kind::iterations, 0.0, passes};
  std::mt19937_64 random(n + d + k);
  std::normal_distribution<double> normal;
  std::vector<double> middles(k * d);
  for (double& middle : middles) {
    middle = offset + normal(random);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t cloud = random() % k;
    for (std::size_t f = 0; f < d; ++f) {
      problem.points.push_back(static_cast<T>(middles[cloud * d + f] + normal(random)));
    }
  }
  problem.centroids.assign(problem.points.begin(),
                           problem.points.begin() + static_cast<std::ptrdiff_t>(k * d));
  return problem;
}

/// Whether a verdict holds a finding of this check.
inline bool finds(const Verdict& verdict, const std::string& check) {
  for (const Finding& finding : verdict.findings) {
    if (finding.check == check) {
      return true;
    }
  }
  return false;
}

} // namespace clusterbench

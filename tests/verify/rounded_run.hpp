// A float64 run that hands its centroids over as a variant does: rounded, after every pass.
#pragma once

#include "harness/judge/oracle.hpp"
#include "impls/contract.hpp"

#include <cstddef>
#include <vector>

namespace clusterbench {

/// The inertia of the returned centroids of `passes` k-means passes, each in float64 from centroids
/// that are rounded to T. Nothing that keeps its centroids in T can be nearer to float64 than this:
/// at an offset of 10^6 a float32 coordinate is 0.03 off, whatever the data's spread.
template <typename T>
double inertia_of_rounded_run(const Problem<T>& problem, std::size_t passes) {
  Problem<T> one_pass = problem;
  one_pass.stop = {StopRule::Kind::iterations, 0.0, 1};
  std::vector<T> centroids(problem.centroids.begin(), problem.centroids.end());
  one_pass.centroids = centroids;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const OracleRun run = run_oracle(Family::kmeans, one_pass);
    for (std::size_t e = 0; e < centroids.size(); ++e) {
      centroids[e] = static_cast<T>(run.returned()[e]);
    }
  }
  return run_oracle(Family::kmeans, one_pass).inertia.front();
}

} // namespace clusterbench

// From squared distances to weights u^m of fuzzy c-means, a lane for each pair of a point and a
// centre.
#pragma once

#include "impls/contract.hpp"
#include "impls/cuda/common/warp_sums.cuh"
#include "impls/cuda/few_clusters/tile_run.cuh"

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace clusterbench::cuda {

struct FcmTask : TileTask {
  const float* given; // [n, k] initial memberships, or null
  float* memberships; // [n, k]
  float fuzzifier;

  /// Takes the memberships of a start, if there are any, and leaves its own in an answer.
  void exchange(const Start<float>& start, const Answer<float>& answer) {
    given = start.memberships.empty() ? nullptr : start.memberships.data();
    memberships = answer.memberships.data();
  }
};

__device__ inline float to_the_m(float membership, float m) {
  return m == 2.0f ? membership * membership : powf(membership, m);
}

/// (nearest / squared)^(1 / (m - 1)), which cannot overflow; 1 for every centre a sample sits on.
__device__ inline float closeness(float nearest, float squared, float m) {
  const float ratio = squared == nearest ? 1.0f : nearest / squared;
  return m == 2.0f ? ratio : powf(ratio, 1.0f / (m - 1.0f));
}

/// Combines lanes that differ in the bits below `width`; all of them get the result.
template <unsigned width, typename Combine>
__device__ float combine_lanes(float value, Combine combine) {
#pragma unroll
  for (unsigned offset = width / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, static_cast<int>(offset)));
  }
  return value;
}

/// The weight u^m of a point in cluster j = lane % K from the squared distance; K lanes a point,
/// whole warps. Adds what the stop rule wants.
template <unsigned K>
__device__ float membership_weight(const FcmTask& task, bool keep, std::size_t point, unsigned j,
                                   float squared, double& wanted) {
  // A cluster behind k is infinitely far: it is never the nearest and has no closeness.
  const bool real = point < task.n && j < task.k;
  const float nearest = combine_lanes<K>(squared, [](float a, float b) { return fminf(a, b); });
  const float close = closeness(nearest, squared, task.fuzzifier);
  const float membership = close / over_lanes<K>(close);
  const float weight = real ? to_the_m(membership, task.fuzzifier) : 0.0f;
  if (real && task.run.rule == StopRule::Kind::loss) {
    wanted += static_cast<double>(weight) * static_cast<double>(squared);
  }
  if (keep) {
    const float largest =
        combine_lanes<K>(membership, [](float a, float b) { return fmaxf(a, b); });
    const unsigned at =
        __ballot_sync(kAllLanes, membership == largest) >> (threadIdx.x % 32 / K * K);
    const std::int32_t label = __ffs(static_cast<int>(at)) - 1; // the lowest of equal ones
    if (real) {
      task.memberships[point * task.k + j] = membership;
    }
    if (real && j == static_cast<unsigned>(label)) {
      wanted += task.run.rule == StopRule::Kind::labels && task.run.labels[point] != label;
      task.run.labels[point] = label;
    }
  }
  return weight;
}

} // namespace clusterbench::cuda

// What a cell's child is given for a problem, and where its answer is read.
#pragma once

#include "harness/judge/verifier.hpp"
#include "harness/problem/registry.hpp"
#include "harness/run/job.hpp"
#include "harness/run/shared_memory.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>

namespace clusterbench {

/// The answer in the slot that a child's report names; its spans refer to `memory`.
template <typename T>
Answer<T> answer_of(const ResultSlots& slots, SharedMemory& memory, const nlohmann::json& entry) {
  const Result<T> result = slots.slot<T>(memory.span(), entry.at("slot"));
  return {result.labels, result.centroids, result.memberships, entry.at("iterations"), {}};
}

/// What a child has to know of a problem, but for the descriptors of its memory.
template <typename T>
Job job_for(const RegisteredVariant& variant, const Problem<T>& problem, int threads) {
  Job job;
  job.name = variant.meta.name;
  job.variant = variant.meta.name;
  job.precision = std::is_same_v<T, float> ? Precision::f32 : Precision::f64;
  job.n = problem.n;
  job.d = problem.d;
  job.k = problem.k;
  job.stop = problem.stop;
  job.fuzzifier = problem.fuzzifier;
  job.threads = threads;
  job.starts_from_memberships = problem.centroids.empty();
  return job;
}

/// What a child may read but not change. Throws OutOfMemory.
template <typename T>
SharedMemory shared_copy(const std::string& name, std::span<const T> values) {
  SharedMemory memory(name, values.size_bytes());
  std::ranges::copy(values, memory.as<T>().begin());
  memory.seal();
  return memory;
}

/// Centroids, or the memberships that a run of FCM starts from.
template <typename T>
std::span<const T> initial_state(const Problem<T>& problem) {
  return problem.centroids.empty() ? problem.memberships : problem.centroids;
}

} // namespace clusterbench

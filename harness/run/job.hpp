// What a parent asks of a child process: run one variant on one problem, in shared memory.
#pragma once

#include "harness/problem/registry.hpp"
#include "harness/run/sampling.hpp"

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace clusterbench {

/// One variant on one problem. Descriptors are inherited by number. The pace protocol has the same
/// form: a change of it changes that protocol's number (harness/compare/pace_protocol.hpp).
struct Task {
  std::string variant;
  Precision precision = Precision::f32;
  std::size_t n = 0, d = 0, k = 0;
  StopRule stop;
  double fuzzifier = 2.0;
  int threads = 1;
  bool starts_from_memberships = false;
  int points_fd = -1;  ///< [n, d]
  int initial_fd = -1; ///< [k, d] or [n, k]
  int result_fd = -1;  ///< ResultSlots::bytes(), or more, for more answers

  Shape shape() const {
    return {.n = n,
            .d = d,
            .k = k,
            .stop = stop,
            .fuzzifier = fuzzifier,
            .starts_from_memberships = starts_from_memberships,
            .threads = threads};
  }
};

nlohmann::json to_json(const Task& task);
Task task_from_json(const nlohmann::json& json);

/// A task, and how a campaign's child is to go about it.
struct Job : Task {
  std::string name;   ///< shown in Google Benchmark's output
  bool timed = true;  ///< false: one run, unmeasured, for a check
  bool record = true; ///< add a recording run: centroids of every pass, phases, counters
  SamplingPlan sampling;
  int trace_fd = -1; ///< grows by [k, d] with every pass of the recording run
};

nlohmann::json to_json(const Job& job);
Job job_from_json(const nlohmann::json& json);

/// Places for the answers of several runs of one job within one block of shared memory.
class ResultSlots {
public:
  /// The first sample's answer, the newest one's, the recording run's, and from here on every answer
  /// that differs from all before it.
  static constexpr std::size_t kFirst = 0, kNewest = 1, kRecorded = 2, kOthers = 3;

  ResultSlots(std::size_t n, std::size_t d, std::size_t k, Family family, std::size_t element_size)
      : n_(n), d_(d), k_(k), has_memberships_(family == Family::fcm),
        labels_bytes_(padded(n * sizeof(std::int32_t))),
        centroids_bytes_(padded(k * d * element_size)),
        memberships_bytes_(has_memberships_ ? padded(n * k * element_size) : 0) {}

  std::size_t bytes_each() const { return labels_bytes_ + centroids_bytes_ + memberships_bytes_; }
  /// Of the slots before kOthers.
  std::size_t bytes() const { return kOthers * bytes_each(); }

  /// The answer buffers of one slot; T must have the element size given above.
  template <typename T>
  Result<T> slot(std::span<std::byte> memory, std::size_t index) const {
    std::byte* base = memory.data() + index * bytes_each();
    Result<T> result;
    result.labels = {reinterpret_cast<std::int32_t*>(base), n_};
    result.centroids = {reinterpret_cast<T*>(base + labels_bytes_), k_ * d_};
    if (has_memberships_) {
      result.memberships = {reinterpret_cast<T*>(base + labels_bytes_ + centroids_bytes_), n_ * k_};
    }
    return result;
  }

private:
  static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

  std::size_t n_, d_, k_;
  bool has_memberships_;
  std::size_t labels_bytes_, centroids_bytes_, memberships_bytes_;
};

} // namespace clusterbench

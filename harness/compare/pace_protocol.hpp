// What the gate asks of a build: run one variant, one sample at a time, when told to.
//
// A build's `clusterbench pace --request-fd R --control-fd C` reads a request from R, which is
// {"protocol": 1, "hidden_folder": path, "jobs": [PaceJob, ...]}, and then answers over C, a stream
// socket, line by line of JSON. For each job it says {"status": "ready"}, or another status and a
// message, and then obeys
//   "run N Y P": N runs, each begun when the yardstick shows at most Y ns, or after P ns of waiting;
//      answer {"samples": [wall, cpu, waited, yardstick, ...]}, in ns,
//   "fetch": answer {"digest": ..., "iterations": ...}; labels and centroids are in slot 0,
//   "next", which ends the job.
// Builds of different age speak it with one another: whatever changes gets another number.
#pragma once

#include "harness/problem/registry.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace clusterbench {

inline constexpr int kPaceProtocol = 1;

/// One variant on one problem. Descriptors are inherited by number.
struct PaceJob {
  std::string variant;
  Precision precision = Precision::f32;
  std::size_t n = 0, d = 0, k = 0;
  StopRule stop;
  double fuzzifier = 2.0;
  int threads = 1;
  bool starts_from_memberships = false;
  int points_fd = -1;  ///< [n, d]
  int initial_fd = -1; ///< [k, d] or [n, k]
  int result_fd = -1;  ///< ResultSlots::bytes()
};

nlohmann::json to_json(const PaceJob& job);
PaceJob pace_job_from_json(const nlohmann::json& json);

} // namespace clusterbench

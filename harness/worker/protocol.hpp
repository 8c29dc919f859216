// What the harness and a worker say to one another: docs/peers.md, "The protocol".
#pragma once

#include "impls/contract.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace clusterbench {

/// The request `points`: a problem, and where its arrays are. Paths of files of memory; empty:
/// none.
struct PointsRequest {
  std::string precision; ///< f32 or f64
  Shape shape;
  std::size_t rotate = 0;     ///< row i of the worker's copy is row (i + rotate) mod n of the file
  std::string points;         ///< [n, d]
  int points_descriptor = -1; ///< of the same file, for a variant that streams
  std::size_t points_offset = 0; ///< of the first row in it [bytes]
  /// On a disk, and not in memory: for a variant that streams, has ranks or computes on GPUs.
  bool points_in_file = false;
  std::string generated; ///< a dataset: a rank without a GPU makes its rows and reads none
  std::string weights;   ///< [n], where the shape is weighted
  std::string start;     ///< [k, d] or [n, k]; filled before every run
  std::string labels, centroids, entering, memberships; ///< of the answer
  std::string record;                                   ///< [passes, k, d] of a recording run
};

nlohmann::json to_json(const PointsRequest& request);
/// Throws nlohmann::json::exception.
PointsRequest points_request_from(const nlohmann::json& json);

/// What the runner has to know before it does anything: one argument of its command line.
struct RunnerSetup {
  int parent = 0;               ///< its process; the runner ends with it
  std::size_t memory_limit = 0; ///< bytes of data; 0: none
  std::size_t file_limit = 0;   ///< bytes of one file
  bool sandboxed = true;
  bool own_network = false;            ///< see SandboxPlan
  bool children_write_to_proc = false; ///< likewise
  std::vector<std::string> hidden;     ///< folders that the variant must not read
  std::string scratch;                 ///< the one folder that it may write to
  int report = -1; ///< descriptor to which the runner writes what the sandbox lacks, a JSON list
};

nlohmann::json to_json(const RunnerSetup& setup);
RunnerSetup runner_setup_from(const nlohmann::json& json);

/// The description of a module's variant, in the form that programs give theirs.
nlohmann::json describe(const RegisteredVariant& variant);

} // namespace clusterbench

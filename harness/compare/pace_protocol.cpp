#include "harness/compare/pace_protocol.hpp"

#include "harness/problem/problem_spec.hpp"

#include <nlohmann/json.hpp>

namespace clusterbench {

nlohmann::json to_json(const PaceJob& job) {
  return {{"variant", job.variant},
          {"precision", to_string(job.precision)},
          {"n", job.n},
          {"d", job.d},
          {"k", job.k},
          {"stop", to_string(job.stop)},
          {"max_iterations", job.stop.max_iterations},
          {"fuzzifier", job.fuzzifier},
          {"threads", job.threads},
          {"starts_from_memberships", job.starts_from_memberships},
          {"points_fd", job.points_fd},
          {"initial_fd", job.initial_fd},
          {"result_fd", job.result_fd}};
}

PaceJob pace_job_from_json(const nlohmann::json& json) {
  PaceJob job;
  job.variant = json.at("variant");
  job.precision = parse_precision(json.at("precision").get<std::string>());
  job.n = json.at("n");
  job.d = json.at("d");
  job.k = json.at("k");
  job.stop = parse_stop(json.at("stop").get<std::string>(), json.at("max_iterations"));
  job.fuzzifier = json.at("fuzzifier");
  job.threads = json.at("threads");
  job.starts_from_memberships = json.at("starts_from_memberships");
  job.points_fd = json.at("points_fd");
  job.initial_fd = json.at("initial_fd");
  job.result_fd = json.at("result_fd");
  return job;
}

} // namespace clusterbench

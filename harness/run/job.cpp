#include "harness/run/job.hpp"

#include "harness/problem/problem_spec.hpp"

#include <nlohmann/json.hpp>

namespace clusterbench {

nlohmann::json to_json(const Job& job) {
  return {{"name", job.name},
          {"variant", job.variant},
          {"precision", to_string(job.precision)},
          {"n", job.n},
          {"d", job.d},
          {"k", job.k},
          {"stop", to_string(job.stop)},
          {"max_iterations", job.stop.max_iterations},
          {"fuzzifier", job.fuzzifier},
          {"threads", job.threads},
          {"starts_from_memberships", job.starts_from_memberships},
          {"timed", job.timed},
          {"record", job.record},
          {"sampling",
           {{"samples", job.sampling.samples},
            {"min_seconds", job.sampling.min_seconds},
            {"max_samples", job.sampling.max_samples},
            {"slow_seconds", job.sampling.slow_seconds},
            {"slow_samples", job.sampling.slow_samples}}},
          {"points_fd", job.points_fd},
          {"initial_fd", job.initial_fd},
          {"result_fd", job.result_fd},
          {"trace_fd", job.trace_fd}};
}

Job job_from_json(const nlohmann::json& json) {
  Job job;
  job.name = json.at("name");
  job.variant = json.at("variant");
  job.precision = parse_precision(json.at("precision").get<std::string>());
  job.n = json.at("n");
  job.d = json.at("d");
  job.k = json.at("k");
  job.stop = parse_stop(json.at("stop").get<std::string>(), json.at("max_iterations"));
  job.fuzzifier = json.at("fuzzifier");
  job.threads = json.at("threads");
  job.starts_from_memberships = json.at("starts_from_memberships");
  job.timed = json.at("timed");
  job.record = json.at("record");
  const auto& sampling = json.at("sampling");
  job.sampling.samples = sampling.at("samples");
  job.sampling.min_seconds = sampling.at("min_seconds");
  job.sampling.max_samples = sampling.at("max_samples");
  job.sampling.slow_seconds = sampling.at("slow_seconds");
  job.sampling.slow_samples = sampling.at("slow_samples");
  job.points_fd = json.at("points_fd");
  job.initial_fd = json.at("initial_fd");
  job.result_fd = json.at("result_fd");
  job.trace_fd = json.at("trace_fd");
  return job;
}

} // namespace clusterbench

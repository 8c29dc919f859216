#include "harness/run/job.hpp"

#include "harness/problem/problem_spec.hpp"

#include <nlohmann/json.hpp>

namespace clusterbench {

nlohmann::json to_json(const Task& task) {
  return {{"variant", task.variant},
          {"precision", to_string(task.precision)},
          {"n", task.n},
          {"d", task.d},
          {"k", task.k},
          {"stop", to_string(task.stop)},
          {"max_iterations", task.stop.max_iterations},
          {"fuzzifier", task.fuzzifier},
          {"threads", task.threads},
          {"starts_from_memberships", task.starts_from_memberships},
          {"points_fd", task.points_fd},
          {"initial_fd", task.initial_fd},
          {"result_fd", task.result_fd}};
}

Task task_from_json(const nlohmann::json& json) {
  Task task;
  task.variant = json.at("variant");
  task.precision = parse_precision(json.at("precision").get<std::string>());
  task.n = json.at("n");
  task.d = json.at("d");
  task.k = json.at("k");
  task.stop = parse_stop(json.at("stop").get<std::string>(), json.at("max_iterations"));
  task.fuzzifier = json.at("fuzzifier");
  task.threads = json.at("threads");
  task.starts_from_memberships = json.at("starts_from_memberships");
  task.points_fd = json.at("points_fd");
  task.initial_fd = json.at("initial_fd");
  task.result_fd = json.at("result_fd");
  return task;
}

nlohmann::json to_json(const Job& job) {
  nlohmann::json json = to_json(static_cast<const Task&>(job));
  json.update({{"name", job.name},
               {"timed", job.timed},
               {"record", job.record},
               {"sampling", job.sampling},
               {"trace_fd", job.trace_fd}});
  return json;
}

Job job_from_json(const nlohmann::json& json) {
  Job job;
  static_cast<Task&>(job) = task_from_json(json);
  job.name = json.at("name");
  job.timed = json.at("timed");
  job.record = json.at("record");
  job.sampling = json.at("sampling");
  job.trace_fd = json.at("trace_fd");
  return job;
}

} // namespace clusterbench

#include "harness/worker/protocol.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

constexpr std::array kRules = {
    std::pair{StopRule::Kind::iterations, "iterations"}, std::pair{StopRule::Kind::loss, "loss"},
    std::pair{StopRule::Kind::labels, "labels"}, std::pair{StopRule::Kind::shift, "shift"}};

json path_or_null(const std::string& path) {
  return path.empty() ? json(nullptr) : json(path);
}

std::string path_from(const json& value) {
  return value.is_null() ? std::string() : value.get<std::string>();
}

const char* name_of(StopRule::Kind kind) {
  for (const auto& [rule, name] : kRules) {
    if (rule == kind) {
      return name;
    }
  }
  throw std::logic_error("unknown stop rule");
}

StopRule::Kind rule_named(const std::string& text) {
  for (const auto& [rule, name] : kRules) {
    if (text == name) {
      return rule;
    }
  }
  throw std::runtime_error("unknown stop rule " + text);
}

const char* name_of(Arithmetic arithmetic) {
  constexpr std::array kNames = {"as data", "tf32", "bf16", "f16"};
  return kNames.at(static_cast<std::size_t>(arithmetic));
}

const char* name_of(Multiplier multiplier) {
  constexpr std::array kNames = {"fma", "tensor tf32", "tensor f16"};
  return kNames.at(static_cast<std::size_t>(multiplier));
}

const char* name_of(Device device) {
  constexpr std::array kNames = {"cpu", "gpu", "multi_gpu", "mpi", "mpi_gpu"};
  return kNames.at(static_cast<std::size_t>(device));
}

} // namespace

json to_json(const PointsRequest& request) {
  const Shape& shape = request.shape;
  return {{"request", "points"},
          {"precision", request.precision},
          {"n", shape.n},
          {"d", shape.d},
          {"k", shape.k},
          {"stop",
           {{"rule", name_of(shape.stop.kind)},
            {"threshold", shape.stop.threshold},
            {"max_iterations", shape.stop.max_iterations}}},
          {"fuzzifier", shape.fuzzifier},
          {"from", shape.starts_from_memberships ? "memberships" : "centroids"},
          {"threads", shape.threads},
          {"rotate", request.rotate},
          {"points", request.points},
          {"points_descriptor", request.points_descriptor},
          {"points_offset", request.points_offset},
          {"points_in_file", request.points_in_file},
          {"generated", path_or_null(request.generated)},
          {"weights", path_or_null(request.weights)},
          {"start", request.start},
          {"answer",
           {{"labels", request.labels},
            {"centroids", request.centroids},
            {"entering", path_or_null(request.entering)},
            {"memberships", path_or_null(request.memberships)}}},
          {"record", path_or_null(request.record)}};
}

PointsRequest points_request_from(const json& json) {
  PointsRequest request;
  request.precision = json.at("precision");
  Shape& shape = request.shape;
  shape.n = json.at("n");
  shape.d = json.at("d");
  shape.k = json.at("k");
  shape.stop = {rule_named(json.at("stop").at("rule")), json.at("stop").at("threshold"),
                json.at("stop").at("max_iterations")};
  shape.fuzzifier = json.at("fuzzifier");
  shape.starts_from_memberships = json.at("from") == "memberships";
  shape.threads = json.at("threads");
  request.rotate = json.at("rotate");
  request.points = json.at("points");
  request.points_descriptor = json.at("points_descriptor");
  request.points_offset = json.at("points_offset");
  request.points_in_file = json.at("points_in_file");
  request.generated = path_from(json.at("generated"));
  request.weights = path_from(json.value("weights", nlohmann::json()));
  shape.weighted = !request.weights.empty();
  request.start = json.at("start");
  request.labels = json.at("answer").at("labels");
  request.centroids = json.at("answer").at("centroids");
  request.entering = path_from(json.at("answer").at("entering"));
  request.memberships = path_from(json.at("answer").at("memberships"));
  request.record = path_from(json.at("record"));
  return request;
}

json to_json(const RunnerSetup& setup) {
  return {{"parent", setup.parent},
          {"memory_limit", setup.memory_limit},
          {"file_limit", setup.file_limit},
          {"sandboxed", setup.sandboxed},
          {"own_network", setup.own_network},
          {"children_write_to_proc", setup.children_write_to_proc},
          {"hidden", setup.hidden},
          {"scratch", setup.scratch},
          {"report", setup.report}};
}

RunnerSetup runner_setup_from(const json& json) {
  return {json.at("parent"),    json.at("memory_limit"), json.at("file_limit"),
          json.at("sandboxed"), json.at("own_network"),  json.at("children_write_to_proc"),
          json.at("hidden"),    json.at("scratch"),      json.at("report")};
}

json describe(const RegisteredVariant& variant) {
  const Meta& meta = variant.meta;
  json precisions = json::array();
  if (variant.factories.f32) {
    precisions.push_back("f32");
  }
  if (variant.factories.f64) {
    precisions.push_back("f64");
  }
  return {
      {"name", meta.name},
      {"idea", meta.idea},
      {"source", meta.source},
      {"family", meta.family == Family::kmeans ? "kmeans" : "fcm"},
      {"device", name_of(meta.device)},
      {"precisions", precisions},
      {"arithmetic", name_of(meta.arithmetic)},
      {"multiplier", name_of(meta.multiplier)},
      {"distance", meta.distance == DistanceForm::difference ? "difference" : "expanded"},
      {"labels", meta.labels == LabelsFrom::entering_centroids ? "before update" : "after update"},
      {"deterministic", meta.deterministic},
      {"approximate_within", meta.approximate_within},
      {"reseeds_empty", meta.reseeds_empty},
      {"streams", meta.streams},
      {"points_on_host", meta.points_on_host},
      {"takes_weights", meta.takes_weights},
      {"min_d", meta.min_d},
      {"max_d", meta.max_d},
      {"max_k", meta.max_k},
      {"previous", meta.previous},
      {"stops", {"iterations", "loss", "labels", "shift"}},
      {"starts", {"centroids", "memberships"}},
      {"records", true},
      {"gives_entering", true}};
}

} // namespace clusterbench

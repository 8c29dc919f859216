#include "harness/report/equal_work.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace clusterbench {
namespace {

using nlohmann::json;

// The most frequent value; of equally frequent ones the largest, because less work flatters.
template <typename Value>
Value most_frequent(const std::vector<Value>& values, Value fallback) {
  std::map<Value, int> counts;
  for (const Value& value : values) {
    ++counts[value];
  }
  int most = 0;
  for (const auto& [value, count] : counts) {
    if (count >= most) {
      most = count;
      fallback = value;
    }
  }
  return fallback;
}

json most_frequent_field(const std::vector<const Measured*>& cells, const char* field) {
  std::vector<json> values;
  for (const Measured* cell : cells) {
    const json& problem = cell->speaker().at("problem");
    if (problem.contains(field)) {
      values.push_back(problem.at(field));
    }
  }
  return most_frequent(values, json());
}

std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A field of the problem that must be what the table says. Only `take` may be left out: all rows.
void compare_field(const json& problem, const json& wanted, const char* field, const char* name,
                   std::vector<std::string>& reasons) {
  const json has = problem.value(field, json("all"));
  const json asked = wanted.value(field, json("all"));
  if (has != asked) {
    reasons.push_back(fmt::format("{} {}, the table says {}", name, shown(has), shown(asked)));
  }
}

} // namespace

std::vector<std::string> OtherWork::reasons() const {
  std::vector<std::string> all = no;
  if (!iterations.empty()) {
    all.insert(all.begin(), iterations);
  }
  return all;
}

CommonWork common_work(const json& problem, const std::vector<const Measured*>& cells) {
  CommonWork common;
  common.problem = problem;
  common.data_sha256 = most_frequent_field(cells, "data_sha256");
  common.n = most_frequent_field(cells, "n");
  common.d = most_frequent_field(cells, "d");
  common.initial_rows = most_frequent_field(cells, "initial_rows");
  if (problem.at("stop") == "iterations") {
    common.iterations = problem.at("max_iterations");
    return common;
  }
  std::vector<std::size_t> iterations;
  for (const Measured* cell : cells) {
    if (cell->ok()) {
      iterations.push_back(cell->speaker().at("iterations"));
    }
  }
  common.iterations = most_frequent(iterations, std::size_t{0});
  return common;
}

OtherWork other_work(const Measured& cell, const CommonWork& common) {
  const json& row = cell.speaker();
  const json& problem = row.at("problem");
  OtherWork other;
  compare_field(problem, common.problem, "data", "data", other.no);
  compare_field(problem, common.problem, "take", "rows taken", other.no);
  compare_field(problem, common.problem, "k", "k", other.no);
  compare_field(problem, common.problem, "init", "initial state", other.no);
  compare_field(problem, common.problem, "stop", "stop rule", other.no);
  compare_field(problem, common.problem, "max_iterations", "bound on iterations", other.no);
  compare_field(problem, common.problem, "fuzzifier", "fuzzifier", other.no);
  const json mine({problem.value("data_sha256", json()), problem.value("n", json()),
                   problem.value("d", json())});
  if (other.no.empty() && mine != json({common.data_sha256, common.n, common.d})) {
    other.no.push_back("other data of the same name");
  }
  if (other.no.empty() && problem.value("initial_rows", json()) != common.initial_rows) {
    other.no.push_back("other initial rows");
  }
  // Without an empty cluster there is nothing to re-seed; the oracle's whole run tells.
  if (row.value("reseeds_empty", false) && row.value("empty_at", 1) != 0) {
    other.no.push_back(row.contains("empty_at")
                           ? fmt::format("re-seeds empty clusters, as in pass {}",
                                         row.at("empty_at").get<std::size_t>())
                           : "re-seeds empty clusters, if there are any");
  }
  if (const std::string arithmetic = row.value("arithmetic", ""); !arithmetic.empty()) {
    other.no.push_back("computes in " + arithmetic);
  }
  if (const auto iterations = row.at("iterations").get<std::size_t>();
      iterations != common.iterations) {
    other.iterations = fmt::format("{}{} iterations, the others {}",
                                   row.value("early_stop", false) ? "stopped early: " : "",
                                   iterations, common.iterations);
  }
  return other;
}

} // namespace clusterbench

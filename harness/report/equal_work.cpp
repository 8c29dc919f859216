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
    if (const json problem = cell->representative().problem(); problem.contains(field)) {
      values.push_back(problem.at(field));
    }
  }
  return most_frequent(values, json());
}

std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A field of the problem that must be what the table says; `left_out` is what it says without the
// field.
void compare_field(const json& problem, const json& wanted, const char* field, const char* name,
                   std::vector<std::string>& reasons, const char* left_out = "all") {
  const json has = problem.value(field, json(left_out));
  const json asked = wanted.value(field, json(left_out));
  if (has != asked) {
    reasons.push_back(fmt::format("{} {}, the table says {}", name, shown(has), shown(asked)));
  }
}

} // namespace

CommonWork common_work(const json& problem, const std::vector<const Measured*>& cells) {
  CommonWork common;
  common.problem = problem;
  common.data_sha256 = most_frequent_field(cells, "data_sha256");
  common.weights_sha256 = most_frequent_field(cells, "weights_sha256");
  common.n = most_frequent_field(cells, "n");
  common.d = most_frequent_field(cells, "d");
  common.initial_rows = most_frequent_field(cells, "initial_rows");
  if (problem.at("stop") == "iterations") {
    common.iterations = problem.at("max_iterations");
    return common;
  }
  std::vector<double> iterations;
  for (const Measured* cell : cells) {
    if (cell->ok() && cell->representative().own_start) {
      iterations.push_back(cell->representative().own_start->iterations);
    }
  }
  common.iterations = most_frequent(iterations, 0.0);
  return common;
}

OtherWork other_work(const Measured& cell, const CommonWork& common) {
  const Row& row = cell.representative();
  const json problem = row.problem();
  OtherWork other;
  compare_field(problem, common.problem, "data", "data", other.no);
  compare_field(problem, common.problem, "take", "rows taken", other.no);
  compare_field(problem, common.problem, "weights", "weights", other.no, "none");
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
  if (other.no.empty() && problem.value("weights_sha256", json()) != common.weights_sha256) {
    other.no.push_back("other weights of the same name");
  }
  if (other.no.empty() && problem.value("initial_rows", json()) != common.initial_rows) {
    other.no.push_back("other initial rows");
  }
  // Without an empty cluster there is nothing to re-seed; the oracle's whole run tells.
  const auto empty_at = row.number("empty_at");
  if (row.field("reseeds_empty") == true && empty_at != 0.0) {
    other.no.push_back(empty_at ? fmt::format("re-seeds empty clusters, as in pass {}", *empty_at)
                                : "re-seeds empty clusters, if there are any");
  }
  // What an approximate variant computes in is its own affair: it is ranked apart.
  if (const json arithmetic = row.field("arithmetic");
      !arithmetic.is_null() && !(row.approximate_within > 0.0)) {
    other.no.push_back("computes in " + shown(arithmetic));
  }
  if (std::ranges::any_of(cell.rounds, &Row::unsandboxed)) {
    other.no.push_back("ran without a sandbox");
  }
  if (!row.own_start) {
    other.iterations = "no run from the problem's own start";
  } else if (row.own_start->iterations != common.iterations) {
    other.iterations = fmt::format("{}{} iterations, the others {}",
                                   row.field("early_stop") == true ? "stopped early: " : "",
                                   row.own_start->iterations, common.iterations);
  }
  return other;
}

} // namespace clusterbench

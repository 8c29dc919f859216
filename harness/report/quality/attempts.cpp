#include "harness/report/quality/attempts.hpp"

#include "datasets/errors.hpp"
#include "harness/ledger/statistics.hpp"
#include "harness/problem/problem_spec.hpp"
#include "harness/system/json_words.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fnmatch.h>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace clusterbench {
namespace {

using nlohmann::json;

double number_or_nan(const json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// The ledger's trace holds the inertia of the centroids that enter each pass of the run from the
// problem's own start, so that of those a pass returns stands one further on; the last are the
// returned ones, judged by themselves.
void put_inertia(Attempt& attempt, const Row& row) {
  const auto passes = static_cast<std::size_t>(row.own_start->iterations);
  attempt.inertia.assign(passes, std::numeric_limits<double>::quiet_NaN());
  if (passes == 0 || row.field("oracle") != "whole run") {
    return;
  }
  for (const json& verdict : row.field("verification")) { // the last is of that run
    attempt.inertia.back() = number_or_nan(verdict.value("objective", json()));
  }
  const json trace = row.field("trace");
  const json entering = trace.is_object() ? trace.value("inertia", json::array()) : json::array();
  attempt.recorded = row.number("recorded_passes") == static_cast<double>(passes) &&
                     entering.is_array() && entering.size() >= passes;
  for (std::size_t pass = 1; attempt.recorded && pass < passes; ++pass) {
    attempt.inertia[pass - 1] = number_or_nan(entering.at(pass));
  }
}

QualityProblem problem_in(const json& problem) {
  ProblemSpec named;
  named.data = problem.at("data");
  static_cast<void>(problem.at("init")); // which the attempt takes
  named.weights = problem.value("weights", "");
  return {.data = adhoc_name(named),
          .n = problem.at("n"),
          .d = problem.at("d"),
          .k = problem.at("k"),
          .stop = problem.at("stop"),
          .max_iterations = problem.at("max_iterations"),
          .data_sha256 = problem.at("data_sha256"),
          .weights_sha256 = problem.value("weights_sha256", "")};
}

// Throws InputError naming the ledger where the row does not say all of it.
QualityProblem problem_of(const Row& row) {
  try {
    return problem_in(row.problem());
  } catch (const json::exception& error) {
    throw datasets::InputError(fmt::format("{}: {}, round {}: its problem: {}", row.header->ledger,
                                           row.name, row.round, words_of(error)));
  }
}

// What a whole answer takes besides its run.
std::optional<double> around_ms(const Row& row) {
  std::vector<double> rest;
  for (const WholeAnswer& answer : row.whole) {
    rest.push_back(answer.ms - answer.run_ms);
  }
  return rest.empty() ? std::nullopt : std::optional(median(rest));
}

Attempt attempt_of(const Measured& cell) {
  const Row& row = cell.representative();
  Attempt attempt;
  attempt.start = start_state(row.problem().at("init"));
  attempt.status = row.status;
  attempt.message = row.message;
  if (!attempt.ok()) {
    return attempt;
  }
  if (const auto run = cell.own_ms()) {
    attempt.run_ms = *run;
    attempt.around_ms = cell.median_of(around_ms).value_or(0.0);
    put_inertia(attempt, row);
  } else {
    attempt.status = "error";
    attempt.message = "it was not run from the problem's own start";
  }
  return attempt;
}

bool matches(const std::string& name, const std::vector<std::string>& globs) {
  return globs.empty() || std::ranges::any_of(globs, [&](const std::string& glob) {
           return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
         });
}

template <typename T>
std::size_t index_in(const std::vector<T>& sorted, const T& value) {
  return static_cast<std::size_t>(std::ranges::lower_bound(sorted, value) - sorted.begin());
}

int several(int devices) {
  return devices > 1 ? devices : 0; // an older ledger does not say that it was one
}

using AttemptKey = std::tuple<QualityProblem, StartState, Solver>;

// Cells that never ran because this machine lacks something are no solver's failures.
std::vector<std::string> drop_absent_solvers(std::map<AttemptKey, Attempt>& attempts) {
  std::map<Solver, const Attempt*> absent;
  for (const auto& [key, attempt] : attempts) {
    absent.emplace(std::get<Solver>(key), &attempt);
  }
  for (const auto& [key, attempt] : attempts) {
    if (attempt.status != "unavailable" && attempt.status != "refused") {
      absent.erase(std::get<Solver>(key));
    }
  }
  std::vector<std::string> notes;
  for (const auto& [solver, attempt] : absent) {
    notes.push_back(fmt::format("{} {} is left out: {}: {}", solver.variant, solver.precision,
                                attempt->status, attempt->message));
  }
  std::erase_if(attempts,
                [&](const auto& entry) { return absent.contains(std::get<Solver>(entry.first)); });
  return notes;
}

} // namespace

StartState start_state(const std::string& text) {
  StartState start{text, 0, text};
  for (const std::string init : {"random", "kmeans++"}) {
    const std::string_view rest = std::string_view(text).substr(std::min(text.size(), init.size()));
    if (text.starts_with(init) && rest.starts_with(':')) {
      std::from_chars(rest.data() + 1, rest.data() + rest.size(), start.seed);
      start.init = init;
    }
  }
  return start;
}

Attempts make_attempts(const Measurements& measurements, const std::vector<std::string>& only) {
  std::map<AttemptKey, Attempt> by_key;
  Attempts result;
  std::set<std::string> not_built, unsandboxed;
  std::size_t fuzzy = 0;
  for (const Measured& cell : measurements.cells) {
    const Row& row = cell.representative();
    const json problem = row.problem();
    if (!matches(row.variant, only)) {
      continue;
    }
    if (problem.value("family", "") != "kmeans") {
      ++fuzzy;
    } else if (!problem.contains("data_sha256")) {
      not_built.insert(row.variant);
    } else if (row.unsandboxed) {
      unsandboxed.insert(row.variant);
    } else {
      by_key[{problem_of(row), start_state(problem.at("init")),
              Solver{row.variant, row.precision, cell.threads(), several(cell.gpus()),
                     several(cell.ranks())}}] = attempt_of(cell);
    }
  }
  result.notes = measurements.edited;
  std::ranges::move(drop_absent_solvers(by_key), std::back_inserter(result.notes));
  if (fuzzy > 0) {
    result.notes.push_back(fmt::format(
        "{} cells of fuzzy c-means are left out: time to quality is measured for k-means only",
        fuzzy));
  }
  for (const std::string& variant : not_built) {
    result.notes.push_back(variant + " is left out: its backend was not built");
  }
  for (const std::string& variant : unsandboxed) {
    result.notes.push_back(variant + " is left out: it ran without a sandbox");
  }
  if (by_key.empty()) {
    throw datasets::InputError("quality: no k-means cell that ran is left to look at");
  }
  std::set<QualityProblem> problems;
  std::set<Solver> solvers;
  for (const auto& [key, attempt] : by_key) {
    problems.insert(std::get<QualityProblem>(key));
    solvers.insert(std::get<Solver>(key));
  }
  result.problems.assign(problems.begin(), problems.end());
  result.solvers.assign(solvers.begin(), solvers.end());
  for (auto& [key, attempt] : by_key) {
    attempt.problem = index_in(result.problems, std::get<QualityProblem>(key));
    attempt.solver = index_in(result.solvers, std::get<Solver>(key));
    result.attempts.push_back(std::move(attempt));
  }
  return result;
}

} // namespace clusterbench

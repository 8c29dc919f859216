#include "harness/run/cell_judge.hpp"

#include "harness/judge/oracle_cache.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/peer/peers.hpp"
#include "harness/run/cell_job.hpp"
#include "harness/run/child_run.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;

// As many passes as the oracle may make; 0 if one is too much.
std::size_t affordable_passes(const Workload& work) {
  const double passes =
      oracle_budget() / (2.0 * static_cast<double>(work.n) * static_cast<double>(work.d) *
                         static_cast<double>(work.k));
  const std::size_t most = work.stop.max_iterations;
  return passes >= static_cast<double>(most) ? most : static_cast<std::size_t>(passes);
}

json without_nan(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json to_json(const Verdict& verdict) {
  json findings = json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back({{"check", finding.check}, {"where", finding.where}});
  }
  return {{"right", verdict.right()},
          {"checks", verdict.checks},
          {"findings", findings},
          {"objective", without_nan(verdict.objective)},
          {"oracle_objective", without_nan(verdict.oracle_objective)},
          {"relative_difference", without_nan(verdict.relative_difference)},
          {"labels_off", verdict.labels_off},
          {"sampled", verdict.sampled},
          {"early_stop", verdict.early_stop}};
}

} // namespace

double& oracle_budget() {
  static double budget = 4e11;
  return budget;
}

void mark_wrong(json& row, const std::string& message) {
  if (row["status"] != "wrong") {
    row["status"] = "wrong";
    row["message"] = message;
  }
}

template <typename T>
const OracleRun& CellJudge::oracle(const Workload& work) {
  // The answer does not depend on how many threads a variant may use.
  Problem<T> problem = work.problem<T>(1);
  problem.stop.max_iterations = affordable_passes(work);
  // A run that the budget cuts short is not the problem's whole one.
  const std::string key = problem.stop.max_iterations == work.stop.max_iterations
                              ? work.hash
                              : fmt::format("{}-{}", work.hash, problem.stop.max_iterations);
  const auto known = oracles_.find(key);
  if (known != oracles_.end()) {
    return known->second;
  }
  return oracles_[key] = cached_oracle_run(oracle_cache_folder(), key, work.spec.family, problem);
}

// Verifies the answers, unless a round before gave the same bits: then its verdict holds.
template <typename T>
void CellJudge::judge(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
                      const SharedMemory& trace, json& row) {
  const bool same_bits = variant.meta.deterministic && row.at("distinct_results") == 1;
  const std::string key =
      fmt::format("{} {} {}", variant.meta.name, work.hash, row.at("digest").get<std::string>());
  if (const auto known = judged_.find(key); same_bits && known != judged_.end()) {
    row.update(known->second);
    return;
  }
  verify<T>(variant, work, memory, trace, row);
  if (row["status"] == "ok") {
    check_single_steps<T>(variant, work, trace, row);
  }
  json verdict;
  for (const char* field :
       {"status", "message", "oracle", "verification", "answers_judged", "single_steps", "trace",
        "early_stop", "still_moving", "stood_still_at", "empty_at"}) {
    if (row.contains(field)) {
      verdict[field] = row[field];
    }
  }
  judged_[key] = verdict;
}

// Judges every distinct answer: against the oracle's run where that is affordable, else by itself;
// and whether there may be more than one.
template <typename T>
void CellJudge::verify(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
                       const SharedMemory& trace, json& row) {
  std::size_t executed = 1;
  for (const json& answer : row.at("answers")) {
    executed = std::max(executed, answer.at("iterations").get<std::size_t>());
  }
  row["oracle"] = executed <= affordable_passes(work) ? "whole run" : "single steps only";
  verify_answers<T>(variant, work, memory, trace, row);
  if (variant.meta.deterministic && row.at("distinct_results") != 1) {
    mark_wrong(row, fmt::format("determinism: {} different results, but the variant says that "
                                "every run gives the same bits",
                                row.at("distinct_results").get<std::size_t>()));
  }
}

// The recorded answer is judged with its trace. Once one is wrong, only that is of interest still.
// The ledger keeps the verdicts on the first answer, the wrong one and the recorded one.
template <typename T>
void CellJudge::verify_answers(const RegisteredVariant& variant, const Workload& work,
                               SharedMemory& memory, const SharedMemory& trace, json& row) {
  const Problem<T> problem = work.problem<T>(threads_);
  const ResultSlots slots(work.n, work.d, work.k, work.spec.family, sizeof(T));
  const bool whole_run = row.at("oracle") == "whole run";
  const json answers = row.at("answers");
  const std::string recorded_digest = answers.back().value("digest", "");
  json& verdicts = row["verification"] = json::array();
  std::size_t judged = 0;
  for (const json& entry : answers) {
    const bool recorded = entry.contains("recorded");
    const bool same_bits = entry.value("digest", "") == recorded_digest;
    if (!recorded && (same_bits || row["status"] == "wrong")) {
      continue;
    }
    Answer<T> answer = answer_of<T>(slots, memory, entry);
    if (recorded) {
      answer.recorded = trace.as<T>();
    }
    const Declaration meta = declaration_of(variant.meta);
    const Verdict verdict = whole_run ? verify_answer(meta, problem, answer, oracle<T>(work))
                                      : verify_consistency(meta, problem, answer);
    ++judged;
    if (verdicts.empty() || recorded || !verdict.right()) {
      verdicts.push_back(to_json(verdict));
    }
    if (!verdict.right()) {
      mark_wrong(row, verdict.message());
    }
    if (recorded && whole_run) {
      row["trace"] = {{"loss", verdict.trace.loss}, {"inertia", verdict.trace.inertia}};
      row["early_stop"] = verdict.early_stop;
    }
  }
  row["answers_judged"] = judged;
  row["answers"] = {answers.front(), answers.back()}; // what the others were, no reader asks
  if (whole_run) {
    row["still_moving"] = oracle<T>(work).still_moving;
    row["stood_still_at"] = oracle<T>(work).stood_still_at;
    row["empty_at"] = oracle<T>(work).empty_at;
  }
}

// One pass from each of several states of the oracle's run, or of the initial one and a late one of
// the variant's own. The child is a new process: it is given states to start from and never learns
// what the oracle makes of them.
template <typename T>
void CellJudge::check_single_steps(const RegisteredVariant& variant, const Workload& work,
                                   const SharedMemory& trace, json& row) {
  const Problem<T> problem = work.problem<T>(threads_);
  std::vector<OneStepState<T>> states;
  if (row.at("oracle") == "whole run") {
    states = one_step_states(work.spec.family, problem, oracle<T>(work));
  } else {
    const std::span<const T> initial = initial_state(problem);
    OneStepState<T> state{"initial state", {}, {}};
    (work.starts_from_memberships ? state.memberships : state.centroids)
        .assign(initial.begin(), initial.end());
    states.push_back(std::move(state));
    const std::span<const T> recorded = trace.as<T>();
    const std::size_t passes = recorded.size() / (work.k * work.d);
    if (passes > 1 && !work.starts_from_memberships) {
      const auto late = recorded.subspan((passes - 2) * work.k * work.d, work.k * work.d);
      states.push_back({fmt::format("after pass {} of its own run", passes - 1),
                        {late.begin(), late.end()},
                        {}});
    }
  }
  const ResultSlots slots(work.n, work.d, work.k, work.spec.family, sizeof(T));
  std::vector<SharedMemory> initial, results;
  std::vector<Job> jobs;
  for (const OneStepState<T>& state : states) {
    const Problem<T> one_pass = one_pass_problem(problem, state);
    initial.push_back(shared_copy("state", initial_state(one_pass)));
    results.emplace_back("results", slots.bytes());
    Job job = job_for(variant, one_pass, threads_);
    job.timed = false;
    job.record = false;
    job.points_fd = work.points->memory.fd();
    job.initial_fd = initial.back().fd();
    job.result_fd = results.back().fd();
    jobs.push_back(job);
  }
  const ChildRun run = run_jobs(jobs, timeout_);
  row["single_steps"] = json::array();
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (i >= run.reports.size()) {
      const Ending ending = describe_ending(run);
      row["status"] = ending.status;
      row["message"] = "in a single-step check: " + ending.message;
      return;
    }
    const json& report = run.reports[i];
    if (report.at("status") != "ok") {
      row["status"] = report.at("status");
      row["message"] = "in a single-step check: " + report.at("message").get<std::string>();
      return;
    }
    const Answer<T> answer = answer_of<T>(slots, results[i], report.at("answers").front());
    const Verdict verdict =
        verify_one_step(declaration_of(variant.meta), one_pass_problem(problem, states[i]), answer);
    json entry = to_json(verdict);
    entry["state"] = states[i].name;
    row["single_steps"].push_back(entry);
    if (!verdict.right()) {
      mark_wrong(row, fmt::format("single step from {}: {}", states[i].name, verdict.message()));
    }
  }
}

template void CellJudge::judge<float>(const RegisteredVariant&, const Workload&, SharedMemory&,
                                      const SharedMemory&, json&);
template void CellJudge::judge<double>(const RegisteredVariant&, const Workload&, SharedMemory&,
                                       const SharedMemory&, json&);

} // namespace clusterbench

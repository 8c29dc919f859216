#include "harness/run/cell.hpp"

#include "datasets/npy.hpp"
#include "harness/judge/oracle_cache.hpp"
#include "harness/judge/qualification.hpp"
#include "harness/peer/peers.hpp"
#include "harness/run/files.hpp"
#include "harness/run/process.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <new>

namespace clusterbench {
namespace {

using nlohmann::json;

// Beyond so many operations the oracle does not run the whole problem; single steps are checked.
constexpr double kOracleBudget = 4e11;

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

// Marks the row wrong and keeps the first sentence that says why.
void mark_wrong(json& row, const std::string& message) {
  if (row["status"] != "wrong") {
    row["status"] = "wrong";
    row["message"] = message;
  }
}

std::string meta_refusal(const Meta& meta, std::size_t d, std::size_t k, Family family) {
  if (meta.family != family) {
    return fmt::format("the variant is {}, the problem is {}", to_string(meta.family),
                       to_string(family));
  }
  if (d < meta.min_d || d > meta.max_d) {
    return meta.min_d == meta.max_d
               ? fmt::format("d = {}, but the variant takes d = {} only", d, meta.min_d)
               : fmt::format("d = {}, but the variant takes d from {} to {}", d, meta.min_d,
                             meta.max_d);
  }
  if (k > meta.max_k) {
    return fmt::format("k = {}, but the variant takes k up to {}", k, meta.max_k);
  }
  return {};
}

template <typename T>
Answer<T> answer_of(const ResultSlots& slots, SharedMemory& memory, const json& entry) {
  const Result<T> result = slots.slot<T>(memory.span(), entry.at("slot"));
  return {result.labels, result.centroids, result.memberships, entry.at("iterations"), {}};
}

template <typename T>
Job job_for(const RegisteredVariant& variant, const Problem<T>& problem, int threads) {
  Job job;
  job.name = variant.meta.name;
  job.variant = variant.meta.name;
  job.precision = std::is_same_v<T, float> ? Precision::f32 : Precision::f64;
  job.n = problem.n;
  job.d = problem.d;
  job.k = problem.k;
  job.stop = problem.stop;
  job.fuzzifier = problem.fuzzifier;
  job.threads = threads;
  job.starts_from_memberships = problem.centroids.empty();
  return job;
}

template <typename T>
SharedMemory shared_copy(const std::string& name, std::span<const T> values) {
  SharedMemory memory(name, values.size_bytes());
  std::ranges::copy(values, memory.as<T>().begin());
  return memory;
}

template <typename T>
std::span<const T> initial_state(const Problem<T>& problem) {
  return problem.centroids.empty() ? problem.memberships : problem.centroids;
}

} // namespace

json CellRunner::run(const RegisteredVariant& variant, const Workload& work,
                     const std::string& name) {
  try {
    return work.precision == Precision::f32 ? run_typed<float>(variant, work, name)
                                            : run_typed<double>(variant, work, name);
  } catch (const std::bad_alloc& error) { // for the answers, or for judging them
    return {{"status", "out_of_memory"}, {"message", error.what()}};
  }
}

template <typename T>
json CellRunner::run_typed(const RegisteredVariant& variant, const Workload& work,
                           const std::string& name) {
  json row = {{"status", "ok"}, {"message", ""}};
  const auto end_with = [&](const std::string& status, const std::string& message) {
    row["status"] = status;
    row["message"] = message;
    return row;
  };
  if (const auto reason = unavailable_reason(variant); !reason.empty()) {
    return end_with("unavailable", reason);
  }
  if (!supports(variant, work.precision)) {
    return end_with("refused",
                    fmt::format("the variant has no {} form", to_string(work.precision)));
  }
  if (auto reason = meta_refusal(variant.meta, work.d, work.k, work.spec.family); !reason.empty()) {
    return end_with("refused", reason);
  }
  if (const Ending ending = qualify<T>(variant); ending.status != "ok") {
    return end_with(ending.status, "qualification: " + ending.message);
  }
  if (interrupt_signal() != 0) {
    return end_with("interrupted", "the campaign was interrupted");
  }

  const Problem<T> problem = work.problem<T>(options_.threads);
  const ResultSlots slots(work.n, work.d, work.k, work.spec.family, sizeof(T));
  SharedMemory memory("results", slots.bytes());
  SharedMemory trace("trace");
  Job job = job_for(variant, problem, options_.threads);
  job.name = name;
  job.sampling = options_.sampling;
  job.points_fd = work.points->memory.fd();
  job.initial_fd = work.initial.fd();
  job.result_fd = memory.fd();
  job.trace_fd = trace.fd();
  const ChildRun run = run_jobs({job}, options_.timeout);
  row["child_seconds"] = run.outcome.seconds;
  if (run.reports.empty()) {
    const Ending ending = describe_ending(run);
    row["output_tail"] = run.output_tail;
    row["peak_rss_bytes"] = run.outcome.peak_rss_bytes;
    return end_with(ending.status, ending.message);
  }
  row.update(run.reports.front());
  if (row["status"] != "ok") {
    row["output_tail"] = run.output_tail;
    return row;
  }
  trace.remap();
  judge<T>(variant, work, memory, trace, row);
  const std::string clock = row.value("peer", json::object()).value("wrong_clock", "");
  if (!clock.empty()) {
    mark_wrong(row, "clock: " + clock);
  }
  if (!options_.save.empty()) {
    save<T>(variant, work, memory, row);
  }
  return row;
}

// Runs the variant on every small awkward problem, in one child, and judges each answer.
template <typename T>
Ending CellRunner::qualify(const RegisteredVariant& variant) {
  const std::string key =
      fmt::format("{} {}", variant.meta.name, std::is_same_v<T, float> ? "f32" : "f64");
  if (const auto known = qualified_.find(key); known != qualified_.end()) {
    return known->second;
  }
  std::vector<OwnedProblem<T>> problems = qualification_problems<T>(variant.meta.family);
  std::erase_if(problems, [&](const OwnedProblem<T>& problem) {
    return !meta_refusal(variant.meta, problem.d, problem.k, variant.meta.family).empty();
  });
  std::vector<SharedMemory> points, initial, results, traces;
  std::vector<Job> jobs;
  for (const OwnedProblem<T>& owned : problems) {
    const Problem<T> problem = owned.view();
    points.push_back(shared_copy("points", problem.points));
    initial.push_back(shared_copy("initial state", initial_state(problem)));
    results.emplace_back(
        "results",
        ResultSlots(problem.n, problem.d, problem.k, variant.meta.family, sizeof(T)).bytes());
    traces.emplace_back("trace");
    Job job = job_for(variant, problem, options_.threads);
    job.timed = false;
    job.points_fd = points.back().fd();
    job.initial_fd = initial.back().fd();
    job.result_fd = results.back().fd();
    job.trace_fd = traces.back().fd();
    jobs.push_back(job);
  }
  const ChildRun run = run_jobs(jobs, options_.timeout);
  Ending ending{"ok", ""};
  for (std::size_t i = 0; i < problems.size() && ending.status == "ok"; ++i) {
    const auto end_with = [&](const std::string& status, const std::string& message) {
      ending = {status, fmt::format("{}: {}", problems[i].name, message)};
    };
    if (i >= run.reports.size()) {
      const Ending child = describe_ending(run);
      end_with(child.status, child.message);
      continue;
    }
    const json& report = run.reports[i];
    if (report.at("status") == "refused") {
      continue;
    }
    if (report.at("status") != "ok") {
      end_with(report.at("status"), report.at("message"));
      continue;
    }
    const Problem<T> problem = problems[i].view();
    const ResultSlots slots(problem.n, problem.d, problem.k, variant.meta.family, sizeof(T));
    Answer<T> answer = answer_of<T>(slots, results[i], report.at("answers").front());
    traces[i].remap();
    answer.recorded = std::as_const(traces[i]).template as<T>();
    const Verdict verdict = verify_answer(declaration_of(variant.meta), problem, answer,
                                          run_oracle(variant.meta.family, problem));
    if (!verdict.right()) {
      end_with("wrong", verdict.message());
    }
  }
  if (ending.status != "interrupted") {
    qualified_[key] = ending;
  }
  return ending;
}

template <typename T>
const OracleRun& CellRunner::oracle(const Workload& work) {
  const auto known = oracles_.find(work.hash);
  if (known != oracles_.end()) {
    return known->second;
  }
  // The answer does not depend on how many threads a variant may use.
  const Problem<T> problem = work.problem<T>(1);
  return oracles_[work.hash] =
             cached_oracle_run(oracle_cache_folder(), work.hash, work.spec.family, problem);
}

// Verifies the answers, unless a round before gave the same bits: then its verdict holds.
template <typename T>
void CellRunner::judge(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
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
    check_single_steps<T>(variant, work, row);
  }
  json verdict;
  for (const char* field : {"status", "message", "oracle", "verification", "single_steps", "trace",
                            "early_stop", "still_moving", "stood_still_at", "empty_at"}) {
    if (row.contains(field)) {
      verdict[field] = row[field];
    }
  }
  judged_[key] = verdict;
}

// Judges whole runs, where the oracle's own is affordable, and whether they agree.
template <typename T>
void CellRunner::verify(const RegisteredVariant& variant, const Workload& work,
                        SharedMemory& memory, const SharedMemory& trace, json& row) {
  const double operations = 2.0 * static_cast<double>(work.n) * static_cast<double>(work.d) *
                            static_cast<double>(work.k) *
                            static_cast<double>(work.stop.max_iterations);
  row["oracle"] = operations <= kOracleBudget ? "whole run" : "single steps only";
  if (operations <= kOracleBudget) {
    verify_answers<T>(variant, work, memory, trace, row);
  }
  if (variant.meta.deterministic && row.at("distinct_results") != 1) {
    mark_wrong(row, fmt::format("determinism: {} different results, but the variant says that "
                                "every run gives the same bits",
                                row.at("distinct_results").get<std::size_t>()));
  }
}

// Judges every distinct answer that the child handed over; the recorded one with its trace.
template <typename T>
void CellRunner::verify_answers(const RegisteredVariant& variant, const Workload& work,
                                SharedMemory& memory, const SharedMemory& trace, json& row) {
  const Problem<T> problem = work.problem<T>(options_.threads);
  const ResultSlots slots(work.n, work.d, work.k, work.spec.family, sizeof(T));
  const json& answers = row.at("answers");
  const std::string recorded_digest = answers.back().value("digest", "");
  row["verification"] = json::array();
  for (const json& entry : answers) {
    const bool recorded = entry.contains("recorded");
    if (!recorded && entry.value("digest", "") == recorded_digest) {
      continue; // the same bits as the recorded answer, which is judged with its trace
    }
    Answer<T> answer = answer_of<T>(slots, memory, entry);
    if (recorded) {
      answer.recorded = trace.as<T>();
    }
    const Verdict verdict =
        verify_answer(declaration_of(variant.meta), problem, answer, oracle<T>(work));
    row["verification"].push_back(to_json(verdict));
    if (!verdict.right()) {
      mark_wrong(row, verdict.message());
    }
    if (recorded) {
      row["trace"] = {{"loss", verdict.trace.loss}, {"inertia", verdict.trace.inertia}};
      row["early_stop"] = verdict.early_stop;
    }
  }
  row["still_moving"] = oracle<T>(work).still_moving;
  row["stood_still_at"] = oracle<T>(work).stood_still_at;
  row["empty_at"] = oracle<T>(work).empty_at;
}

// One pass from each of several states of the oracle's run. The child is a new process: it is given
// states to start from and never learns what the oracle makes of them.
template <typename T>
void CellRunner::check_single_steps(const RegisteredVariant& variant, const Workload& work,
                                    json& row) {
  const Problem<T> problem = work.problem<T>(options_.threads);
  std::vector<OneStepState<T>> states;
  if (row.at("oracle") == "whole run") {
    states = one_step_states(work.spec.family, problem, oracle<T>(work));
  } else {
    const std::span<const T> initial = initial_state(problem);
    OneStepState<T> state{"initial state", {}, {}};
    (work.starts_from_memberships ? state.memberships : state.centroids)
        .assign(initial.begin(), initial.end());
    states.push_back(std::move(state));
  }
  const ResultSlots slots(work.n, work.d, work.k, work.spec.family, sizeof(T));
  std::vector<SharedMemory> initial, results;
  std::vector<Job> jobs;
  for (const OneStepState<T>& state : states) {
    const Problem<T> one_pass = one_pass_problem(problem, state);
    initial.push_back(shared_copy("state", initial_state(one_pass)));
    results.emplace_back("results", slots.bytes());
    Job job = job_for(variant, one_pass, options_.threads);
    job.timed = false;
    job.record = false;
    job.points_fd = work.points->memory.fd();
    job.initial_fd = initial.back().fd();
    job.result_fd = results.back().fd();
    jobs.push_back(job);
  }
  const ChildRun run = run_jobs(jobs, options_.timeout);
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

template <typename T>
void CellRunner::save(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
                      const json& row) const {
  const ResultSlots slots(work.n, work.d, work.k, work.spec.family, sizeof(T));
  const Answer<T> answer = answer_of<T>(slots, memory, row.at("answers").back());
  const auto path = [&](const std::string& suffix) {
    return options_.save / (variant.meta.name + suffix);
  };
  datasets::write_npy<std::int32_t>(path(".labels.npy"), answer.labels, {work.n});
  datasets::write_npy<T>(path(".centroids.npy"), answer.centroids, {work.k, work.d});
  if (!answer.memberships.empty()) {
    datasets::write_npy<T>(path(".memberships.npy"), answer.memberships, {work.n, work.k});
  }
  json trace = row.value("trace", json::object());
  trace["iterations"] = answer.iterations;
  if (!row.at("printed_loss").empty()) {
    trace["printed_loss"] = row.at("printed_loss");
  }
  write_text_file(path(".trace.json"), trace.dump(2) + "\n");
}

} // namespace clusterbench

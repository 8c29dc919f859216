#include "harness/run/cell.hpp"

#include "datasets/npy.hpp"
#include "harness/judge/qualification.hpp"
#include "harness/machine/provenance.hpp"
#include "harness/peer/peers.hpp"
#include "harness/run/cell_job.hpp"
#include "harness/run/files.hpp"
#include "harness/run/process.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <new>
#include <type_traits>

namespace clusterbench {
namespace {

using nlohmann::json;

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
void save_answer(const std::filesystem::path& stem, const std::string& key, std::size_t d,
                 const ResultSlots& slots, SharedMemory& memory, const json& row) {
  const Answer<T> answer = answer_of<T>(slots, memory, row.at("answers").back());
  const std::size_t n = answer.labels.size();
  const std::size_t k = answer.centroids.size() / d;
  const auto path = [&](const char* suffix) {
    return std::filesystem::path(stem.string() + suffix);
  };
  make_output_folder(stem.parent_path());
  // Until everything is written, the files there may be of two answers, which no trace vouches for.
  std::error_code none_there;
  std::filesystem::remove(path(".trace.json"), none_there);
  datasets::write_npy<std::int32_t>(path(".labels.npy"), answer.labels, {n});
  datasets::write_npy<T>(path(".centroids.npy"), answer.centroids, {k, d});
  if (!answer.memberships.empty()) {
    datasets::write_npy<T>(path(".memberships.npy"), answer.memberships, {n, k});
  }
  json trace = row.value("trace", json::object());
  trace["key"] = key;
  trace["iterations"] = answer.iterations;
  if (!row.at("printed_loss").empty()) {
    trace["printed_loss"] = row.at("printed_loss");
  }
  write_text_file(path(".trace.json"), trace.dump(2) + "\n");
}

} // namespace

CellEnd CellRunner::run(const RegisteredVariant& variant, const Workload& work,
                        const std::string& name) {
  try {
    return work.precision == Precision::f32 ? run_typed<float>(variant, work, name)
                                            : run_typed<double>(variant, work, name);
  } catch (const std::bad_alloc& error) { // for the answers, or for judging them
    return {{{"status", "out_of_memory"}, {"message", error.what()}}};
  }
}

template <typename T>
CellEnd CellRunner::run_typed(const RegisteredVariant& variant, const Workload& work,
                              const std::string& name) {
  json row = {{"status", "ok"}, {"message", ""}};
  const auto end_with = [&](const std::string& status, const std::string& message) {
    row["status"] = status;
    row["message"] = message;
    return CellEnd{row};
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
  const auto memory =
      std::make_shared<SharedMemory>("results", slots.bytes(), bytes_of_others(slots));
  SharedMemory trace("trace");
  Job job = job_for(variant, problem, options_.threads);
  job.name = name;
  job.sampling = options_.sampling;
  job.points_fd = work.points->memory.fd();
  job.initial_fd = work.initial.fd();
  job.result_fd = memory->fd();
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
    return {row};
  }
  trace.remap();
  judge_.judge<T>(variant, work, *memory, trace, row);
  const std::string clock = row.value("peer", json::object()).value("wrong_clock", "");
  if (!clock.empty()) {
    mark_wrong(row, "clock: " + clock);
  }
  return {row, [row, slots, memory, d = work.d](const std::filesystem::path& stem,
                                                const std::string& key) {
            save_answer<T>(stem, key, d, slots, *memory, row);
          }};
}

// For all answers that differ. Few variants give more than one, and what is not written takes no
// memory; a quarter of what there is leaves room for all else.
std::size_t CellRunner::bytes_of_others(const ResultSlots& slots) const {
  const std::size_t most = available_memory_bytes() / 4 / slots.bytes_each();
  return std::min(most_runs(options_.sampling), most) * slots.bytes_each();
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
    const Verdict verdict =
        verify_answer(declaration_of(variant.meta), problem, answer,
                      run_oracle(variant.meta.family, problem), {.judges_precision = false});
    if (!verdict.right()) {
      end_with("wrong", verdict.message());
    }
  }
  if (ending.status != "interrupted") {
    qualified_[key] = ending;
  }
  return ending;
}

} // namespace clusterbench

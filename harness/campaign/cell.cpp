#include "harness/campaign/cell.hpp"

#include "datasets/npy.hpp"
#include "harness/campaign/answer_files.hpp"
#include "harness/campaign/cell_judge.hpp"
#include "harness/campaign/timed_process.hpp"
#include "harness/judge/oracle_cache.hpp"
#include "harness/judge/qualification.hpp"
#include "harness/system/files.hpp"
#include "harness/system/memory_group.hpp"
#include "harness/system/messages.hpp"
#include "harness/system/shared_memory.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>

namespace clusterbench {
namespace {

using nlohmann::json;

// What the description tells, without starting anything.
std::string declared_refusal(const KnownVariant& variant, const Shape& shape, Family family) {
  const Meta& meta = variant.meta;
  if (meta.family != family) {
    return fmt::format("the variant is {}, the problem is {}", to_string(meta.family),
                       to_string(family));
  }
  if (shape.d < meta.min_d || shape.d > meta.max_d) {
    return meta.min_d == meta.max_d
               ? fmt::format("d = {}, but the variant takes d = {} only", shape.d, meta.min_d)
               : fmt::format("d = {}, but the variant takes d from {} to {}", shape.d, meta.min_d,
                             meta.max_d);
  }
  if (shape.k > meta.max_k) {
    return fmt::format("k = {}, but the variant takes k up to {}", shape.k, meta.max_k);
  }
  if (std::ranges::find(variant.stops, shape.stop.kind) == variant.stops.end()) {
    return fmt::format("the program has no stop rule `{}`", to_string(shape.stop));
  }
  if (shape.weighted && !meta.takes_weights) {
    return "the points have weights, and the variant takes none";
  }
  if (shape.starts_from_memberships ? !variant.starts_from_memberships
                                    : !variant.starts_from_centroids) {
    return fmt::format("the program does not start from {}",
                       shape.starts_from_memberships ? "memberships" : "centroids");
  }
  return {};
}

// No verdict on points that are no longer what they were.
void check_file(const Workload& work) {
  if (work.points->file != nullptr) {
    work.points->file->check();
  }
}

// Both processes at their largest; what they share counts twice. Ranks stand for machines of their
// own: each of them is held to the limit, and so is the harness.
void account_for_memory(json& row, const datasets::FileInPlace& file, const CellOptions& options) {
  const std::size_t limit = options.memory_limit;
  const std::size_t own = file.peak_resident_bytes();
  const bool has_ranks = row.contains("peak_rss_bytes_of_rank");
  const std::size_t peak = has_ranks
                               ? std::max(own, row.at("peak_rss_bytes_of_rank").get<std::size_t>())
                               : own + row.value("peak_rss_bytes", std::size_t{0});
  const char* const rows_of_variant = has_ranks          ? "a rank has its own rows alone"
                                      : file.is_direct() ? "direct reads"
                                                         : "reads by the cache";
  std::string held_by =
      fmt::format("{}, pages of the file let go and not counted, a limit of data", rows_of_variant);
  if (!has_ranks && options.memory_group != nullptr) {
    const std::string& why_not = options.memory_group->why_not();
    held_by += why_not.empty() ? ", a control group with the kernel's cache"
                               : fmt::format("; no control group ({})", why_not);
  }
  row["memory"] = {{"limit_bytes", limit}, {"peak_bytes", peak}, {"held_by", held_by}};
  if (peak > limit) {
    mark(row, "out_of_memory",
         fmt::format("{} were in memory{}, --memory allows {}", bytes_text(peak),
                     has_ranks ? " of one process" : "", bytes_text(limit)));
  }
}

// What tells without a start that a variant cannot live with a limit of the memory.
std::string refusal_for_memory(const KnownVariant& variant, const Workload& work,
                               const CellOptions& options) {
  const std::size_t limit = options.memory_limit;
  const std::size_t value = work.precision == Precision::f32 ? sizeof(float) : sizeof(double);
  const std::size_t row = work.d * value;
  const bool has_ranks = variant.meta.device == Device::mpi;
  if (variant.is_program || !(variant.meta.streams || has_ranks)) {
    return fmt::format("the points need {}, --memory allows {} for everything: they stay in their "
                       "file, and only variants that stream read them there",
                       bytes_text(work.n * row), bytes_text(limit));
  }
  const auto ranks = static_cast<std::size_t>(options.ranks);
  if (const std::size_t share = (work.n + ranks - 1) / ranks * row; has_ranks && share >= limit) {
    return fmt::format(
        "each of {} ranks has {} of the points, --memory allows {} for everything in a "
        "process: more ranks have less each",
        ranks, bytes_text(share), bytes_text(limit));
  }
  // Memberships are part of each answer. A dozen answers are in memory until they are judged, and
  // as many starts where these are memberships; and there are the shares of the file and of further
  // answers, and both programs.
  constexpr std::size_t kPrograms = std::size_t{32} << 20; // bytes; --memory is more than that
  const std::size_t most = (limit - kPrograms) / (work.starts_from_memberships ? 48 : 24);
  const bool is_fuzzy = work.spec.family == Family::fcm;
  if (const std::size_t memberships = is_fuzzy ? work.n * work.k * value : 0; memberships > most) {
    return fmt::format("each answer has {} of memberships, --memory {} allows {} for one: all that "
                       "wait for the judge are in memory",
                       bytes_text(memberships), bytes_text(limit), bytes_text(most));
  }
  return "";
}

// What --device-memory cannot do, or what cannot be done with so little of it; empty where it can.
std::string refusal_of_device_memory(const KnownVariant& variant, std::size_t points_bytes,
                                     std::size_t limit, int gpus) {
  const Meta& meta = variant.meta;
  if (limit == 0 || !computes_on_gpus(meta.device)) {
    return {};
  }
  if (variant.is_program) {
    return "--device-memory: a program's own process cannot be held to it";
  }
  const std::size_t share = points_bytes / static_cast<std::size_t>(gpus_of(meta, gpus));
  if (meta.points_on_host || share <= limit) {
    return {};
  }
  return fmt::format(
      "the points need {} of device memory, --device-memory allows {} for everything: "
      "only variants that leave them in host memory take them",
      bytes_text(share), bytes_text(limit));
}

template <typename T>
void save_answer(const std::filesystem::path& stem, const std::string& key, std::size_t d,
                 const TakenAnswer<T>& answer, const json& row) {
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
  trace["bytes"] = AnswerFiles::sizes(stem);
  trace["iterations"] = answer.iterations;
  if (const json printed = row.value("printed_loss", json::array()); !printed.empty()) {
    trace["printed_loss"] = printed;
  }
  write_text_file(path(".trace.json"), trace.dump(2) + "\n");
}

} // namespace

CellRunner::CellRunner(CellOptions options) : options_(std::move(options)) {
  options_.hidden.push_back(oracle_cache_folder());
}

WorkerOptions CellRunner::worker_options() const {
  WorkerOptions options;
  options.threads = options_.threads;
  options.gpus = options_.gpus;
  options.ranks = options_.ranks;
  options.timeout = options_.timeout;
  options.sandboxed = options_.sandboxed;
  options.memory_limit = options_.memory_limit;
  options.device_memory_limit = options_.device_memory_limit;
  options.hidden = options_.hidden;
  return options;
}

CellEnd CellRunner::run(const KnownVariant& variant, const Workload& work,
                        const std::string& name) {
  try {
    return work.precision == Precision::f32 ? run_typed<float>(variant, work, name)
                                            : run_typed<double>(variant, work, name);
  } catch (const datasets::InputError& error) { // the file of the points
    return {{{"status", "error"}, {"message", error.what()}}};
  } catch (const std::exception& error) { // for the answers, or for judging them
    if (!is_out_of_memory(error)) {
      throw;
    }
    return {{{"status", "out_of_memory"}, {"message", words_of(error)}}};
  }
}

CellEnd CellRunner::qualify(const KnownVariant& variant, Precision precision) {
  if (const auto reason = unavailable_reason(variant); !reason.empty()) {
    return {{{"status", "unavailable"}, {"message", reason}}};
  }
  const Ending ending = precision == Precision::f32 ? qualification_of<float>(variant)
                                                    : qualification_of<double>(variant);
  return {{{"status", ending.status}, {"message", ending.message}}};
}

template <typename T>
CellEnd CellRunner::run_typed(const KnownVariant& variant, const Workload& work,
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
  const Problem<T> problem = work.problem<T>(options_.threads);
  if (auto reason = declared_refusal(variant, problem.shape(), work.spec.family); !reason.empty()) {
    return end_with("refused", reason);
  }
  if (work.points->file != nullptr) {
    if (const auto reason = refusal_for_memory(variant, work, options_); !reason.empty()) {
      return end_with("refused", reason);
    }
  }
  if (auto reason = refusal_of_device_memory(variant, work.n * work.d * sizeof(T),
                                             options_.device_memory_limit, options_.gpus);
      !reason.empty()) {
    return end_with("refused", reason);
  }
  const auto keep_last_words = [&](const std::string& last_words) {
    if (!last_words.empty()) {
      row["output_tail"] = last_words;
    }
  };
  if (const Ending ending = qualification_of<T>(variant); ending.status != "ok") {
    keep_last_words(ending.last_words);
    // What the machine lacks says nothing of the variant.
    return end_with(ending.status, ending.status == "unavailable"
                                       ? ending.message
                                       : "qualification: " + ending.message);
  }
  if (interrupt_signal() != 0) {
    return end_with("interrupted", "the campaign was interrupted");
  }

  std::optional<MemoryGroup::Lifted> each_rank_alone;
  if (has_ranks(variant.meta.device) && options_.memory_group != nullptr) {
    each_rank_alone.emplace(*options_.memory_group); // the limit is one of each process
  }
  const CellTask<T> cell =
      make_cell_task<T>(variant, work, options_.starts_seed,
                        std::max<std::size_t>(options_.sampling.samples, 1), worker_options());
  const auto judge = std::make_shared<CellJudge<T>>(cell, oracles_, row);
  try {
    row.update(time_cell<T>(cell, options_.sampling, name,
                            [&](TakenAnswer<T>&& answer) { judge->accept(std::move(answer)); }));
    if (const std::string finding = row.at("clock").at("finding"); !finding.empty()) {
      mark(row, "cheated", "clock: " + finding);
    }
    judge->judge();
    check_file(work);
  } catch (const WorkerFailure& failure) {
    const bool was_here = failure.status() == "unavailable"; // it has been qualified
    mark(row, was_here ? "error" : failure.status(),
         was_here ? fmt::format("it could be loaded before, and now says: {}", failure.what())
                  : failure.what());
    keep_last_words(failure.last_words());
    return {row};
  } catch (const Interrupted&) {
    check_file(work);
    return end_with("interrupted", "the campaign was interrupted");
  }
  if (work.points->file != nullptr) {
    account_for_memory(row, *work.points->file, options_);
  }
  if (!options_.sandboxed) {
    row["unsandboxed"] = true;
  }
  const auto own = std::make_shared<TakenAnswer<T>>(judge->own_answer());
  return {row, [row, own, d = work.d](const std::filesystem::path& stem, const std::string& key) {
            save_answer<T>(stem, key, d, *own, row);
          }};
}

// Runs the variant on every small awkward problem, in one process, and judges each answer.
template <typename T>
CellRunner::Ending CellRunner::qualification_of(const KnownVariant& variant) {
  const std::string key =
      fmt::format("{} {}", variant.meta.name, std::is_same_v<T, float> ? "f32" : "f64");
  if (const auto known = qualified_.find(key); known != qualified_.end()) {
    return known->second;
  }
  const Family family = variant.meta.family;
  std::vector<OwnedProblem<T>> problems = qualification_problems<T>(family);
  std::erase_if(problems, [&](const OwnedProblem<T>& problem) {
    return !declared_refusal(variant, problem.view().shape(), family).empty();
  });
  std::vector<SharedMemory> points, weights;
  std::vector<CellMemory<T>> memories;
  WorkerOptions options = worker_options();
  constexpr std::chrono::duration<double> kLongEnough{120}; // for problems of milliseconds
  options.timeout = std::min(options.timeout, kLongEnough);
  points.reserve(problems.size()); // the memories refer to their elements
  weights.reserve(problems.size());
  for (const OwnedProblem<T>& problem : problems) {
    points.push_back(sealed_copy<T>("points", problem.points));
    weights.push_back(sealed_copy<T>("weights", problem.weights));
    memories.emplace_back(problem.view().shape(), family, points.back(), variant.gives_entering,
                          &weights.back());
    const std::vector<int> descriptors = memories.back().descriptors();
    options.descriptors.insert(options.descriptors.end(), descriptors.begin(), descriptors.end());
  }
  Ending ending;
  std::string at;
  try {
    Worker worker(variant, options);
    for (std::size_t i = 0; i < problems.size() && ending.status == "ok"; ++i) {
      at = problems[i].name;
      try {
        worker.points(memories[i].request());
        worker.prepare();
        std::vector<Problem<T>> both = {problems[i].view()};
        if (!problems[i].second.empty()) {
          both.push_back(problems[i].second_view());
        }
        for (const Problem<T>& problem : both) {
          memories[i].put_start(problem.centroids.empty() ? problem.memberships
                                                          : problem.centroids);
          const RunReply run = worker.run(/*record=*/true);
          worker.take();
          TakenAnswer<T> answer = memories[i].answer(run.iterations);
          if (variant.records) {
            answer.recorded = memories[i].recorded();
          }
          const Verdict verdict = verify_answer(Declaration(variant.meta, variant.centres_points),
                                                problem, answer.view(), run_oracle(family, problem),
                                                {.judges_precision = false});
          if (!verdict.right()) {
            ending = {"wrong", fmt::format("{}: {}", at, verdict.message()), ""};
            break;
          }
        }
      } catch (const WorkerFailure& failure) {
        if (failure.status() != "refused") {
          throw;
        }
      }
    }
  } catch (const WorkerFailure& failure) {
    ending = {failure.status(),
              at.empty() ? failure.what() : fmt::format("{}: {}", at, failure.what()),
              failure.last_words()};
  }
  if (ending.status != "interrupted") {
    qualified_[key] = ending;
  }
  return ending;
}

} // namespace clusterbench

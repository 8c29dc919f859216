#include "harness/campaign/cell.hpp"

#include "harness/campaign/answer_files.hpp"
#include "harness/campaign/cell_judge.hpp"
#include "harness/campaign/refusals.hpp"
#include "harness/campaign/timed_process.hpp"
#include "harness/judge/oracle_cache.hpp"
#include "harness/system/memory_group.hpp"
#include "harness/system/messages.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <optional>

namespace clusterbench {
namespace {

using nlohmann::json;

// No verdict on points that are no longer what they were.
void check_file(const Workload& work) {
  if (work.points->file != nullptr) {
    work.points->file->check();
  }
}

// Both processes at their largest; what they share counts twice. Ranks stand for machines of their
// own: each of them is held to the limit, and so is the harness. CUDA reserves far more addresses
// than it uses, which no limit of data allows.
void account_for_memory(json& row, const datasets::FileInPlace& file, const Meta& meta,
                        const CellOptions& options) {
  const std::size_t limit = options.memory_limit;
  const std::size_t own = file.peak_resident_bytes();
  const bool has_ranks = row.contains("peak_rss_bytes_of_rank");
  const std::size_t peak = has_ranks
                               ? std::max(own, row.at("peak_rss_bytes_of_rank").get<std::size_t>())
                               : own + row.value("peak_rss_bytes", std::size_t{0});
  const bool on_gpus = computes_on_gpus(meta.device);
  const char* const rows_of_variant = on_gpus            ? "rows go to the GPU's memory in pieces"
                                      : has_ranks        ? "a rank has its own rows alone"
                                      : file.is_direct() ? "direct reads"
                                                         : "reads by the cache";
  std::string held_by = fmt::format("{}, pages of the file let go and not counted{}",
                                    rows_of_variant, on_gpus ? "" : ", a limit of data");
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

CellOptions with_hidden_oracles(CellOptions options) {
  options.hidden.push_back(oracle_cache_folder());
  return options;
}

WorkerOptions worker_options(const CellOptions& cell) {
  WorkerOptions options;
  options.threads = cell.threads;
  options.gpus = cell.gpus;
  options.ranks = cell.ranks;
  options.timeout = cell.timeout;
  options.sandboxed = cell.sandboxed;
  options.memory_limit = cell.memory_limit;
  options.device_memory_limit = cell.device_memory_limit;
  options.hidden = cell.hidden;
  return options;
}

} // namespace

CellRunner::CellRunner(CellOptions options)
    : options_(with_hidden_oracles(std::move(options))), qualifier_(worker_options(options_)) {}

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
  const Qualification ending = precision == Precision::f32 ? qualifier_.qualify<float>(variant)
                                                           : qualifier_.qualify<double>(variant);
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
  const Allowance allowed{options_.memory_limit, options_.device_memory_limit, options_.gpus,
                          options_.ranks};
  if (const auto reason =
          refusal_before_start(variant, work, work.problem<T>(options_.threads).shape(), allowed);
      !reason.empty()) {
    return end_with("refused", reason);
  }
  const auto keep_last_words = [&](const std::string& last_words) {
    if (!last_words.empty()) {
      row["output_tail"] = last_words;
    }
  };
  if (const Qualification ending = qualifier_.qualify<T>(variant); ending.status != "ok") {
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
  const CellTask<T> cell = make_cell_task<T>(variant, work, options_.starts_seed,
                                             std::max<std::size_t>(options_.sampling.samples, 1),
                                             worker_options(options_));
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
    account_for_memory(row, *work.points->file, variant.meta, options_);
  }
  if (!options_.sandboxed) {
    row["unsandboxed"] = true;
  }
  const auto own = std::make_shared<TakenAnswer<T>>(judge->own_answer());
  return {row, [row, own, d = work.d](const std::filesystem::path& stem, const std::string& key) {
            AnswerFiles::write(stem, key, d, *own, row);
          }};
}

} // namespace clusterbench

// One cell: run a variant on a problem in a child process, then have its answer judged.
#pragma once

#include "harness/problem/workload.hpp"
#include "harness/run/cell_judge.hpp"
#include "harness/run/child_run.hpp"
#include "harness/run/sampling.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

struct CellOptions {
  int threads = 1;
  SamplingPlan sampling;
  std::chrono::duration<double> timeout{900}; ///< for each child process
};

/// How a cell ended.
struct CellEnd {
  nlohmann::json row; ///< what the ledger's row says of it
  /// Writes the answer as `stem`.labels.npy and so on, last .trace.json, which names the ledger's row
  /// by its key. Throws datasets::OutputError. Empty where the variant gave no answer.
  std::function<void(const std::filesystem::path& stem, const std::string& key)> save = {};
};

/// Runs cells and remembers what several of them share: which variants are qualified, and what the
/// judge knows.
class CellRunner {
public:
  explicit CellRunner(CellOptions options)
      : options_(std::move(options)), judge_(options_.threads, options_.timeout) {}

  /// Qualifies the variant if it is not yet, runs the cell, verifies every answer it handed over,
  /// and returns the row for the ledger. Everything that goes wrong with the variant is a status in
  /// the row: ok, wrong, refused, unavailable, error, crashed, timed_out, out_of_memory,
  /// interrupted.
  CellEnd run(const RegisteredVariant& variant, const Workload& work, const std::string& name);

private:
  template <typename T>
  CellEnd run_typed(const RegisteredVariant& variant, const Workload& work,
                    const std::string& name);
  template <typename T>
  Ending qualify(const RegisteredVariant& variant);
  std::size_t bytes_of_others(const ResultSlots& slots) const;

  CellOptions options_;
  CellJudge judge_;
  std::map<std::string, Ending> qualified_; ///< variant and precision -> `ok`, or why not
};

} // namespace clusterbench

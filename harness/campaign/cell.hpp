// One cell: time a variant on a problem, check it, and say how it ended.
#pragma once

#include "harness/campaign/oracles.hpp"
#include "harness/campaign/qualifier.hpp"
#include "harness/campaign/sampling.hpp"
#include "harness/problem/workload.hpp"
#include "harness/system/memory_group.hpp"
#include "harness/worker/worker.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

struct CellOptions {
  int threads = 1;
  int gpus = 1;            ///< for variants of Device::multi_gpu and mpi_gpu
  int ranks = kUsualRanks; ///< of variants of Device::mpi
  SamplingPlan sampling;
  std::chrono::duration<double> timeout{900}; ///< for each process of a cell
  std::size_t memory_limit = 0; ///< bytes for everything, the points in their file; 0: none
  /// Where there is a memory_limit: who holds it, if it can.
  std::shared_ptr<const MemoryGroup> memory_group;
  std::size_t device_memory_limit = 0; ///< bytes of each device that a GPU variant is left; 0: all
  std::uint64_t starts_seed = 0;       ///< of the starts: the campaign's secret
  bool sandboxed = true;               ///< else no answer is ranked
  std::vector<std::filesystem::path> hidden; ///< folders that variants must not read
};

/// How a cell ended.
struct CellEnd {
  nlohmann::json row; ///< what the ledger's row says of it
  /// Writes the answer from the problem's own start as `stem`.labels.npy and so on, last
  /// .trace.json, which names the ledger's row by its key. Throws datasets::OutputError. Empty
  /// where the variant gave no answer.
  std::function<void(const std::filesystem::path& stem, const std::string& key)> save = {};
};

/// Runs cells and remembers what several of them share: which variants are qualified, and what the
/// oracle found.
class CellRunner {
public:
  explicit CellRunner(CellOptions options);

  /// Qualifies the variant if it is not yet, runs the cell, verifies the answers, and returns the
  /// row for the ledger. Everything that goes wrong with the variant is a status in the row: ok,
  /// wrong, cheated, refused, unavailable, error, crashed, timed_out, out_of_memory, interrupted.
  CellEnd run(const KnownVariant& variant, const Workload& work, const std::string& name);

  /// The qualification alone: the small awkward problems, which every variant has to take before
  /// its first cell. The row has `status` and `message` only.
  CellEnd qualify(const KnownVariant& variant, Precision precision);

private:
  template <typename T>
  CellEnd run_typed(const KnownVariant& variant, const Workload& work, const std::string& name);

  CellOptions options_;
  Oracles oracles_;
  Qualifier qualifier_;
};

} // namespace clusterbench

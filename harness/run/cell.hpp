// One cell: run a variant on a problem in a child process, then judge its answer.
#pragma once

#include "harness/judge/oracle.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/problem/workload.hpp"
#include "harness/run/child_run.hpp"
#include "harness/run/job.hpp"

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

struct CellOptions {
  int threads = 1;
  SamplingPlan sampling;
  std::chrono::duration<double> timeout{900}; ///< for each child process
  std::filesystem::path save;                 ///< where answers are saved as .npy; empty: nowhere
};

/// Runs cells and remembers what several of them share: which variants are qualified, and the
/// oracle's runs.
class CellRunner {
public:
  explicit CellRunner(CellOptions options) : options_(std::move(options)) {}

  /// Qualifies the variant if it is not yet, runs the cell, verifies every answer it handed over,
  /// and returns the row for the ledger. Everything that goes wrong with the variant is a status in
  /// the row: ok, wrong, refused, unavailable, error, crashed, timed_out, out_of_memory,
  /// interrupted. Throws datasets::OutputError if answers cannot be saved.
  nlohmann::json run(const RegisteredVariant& variant, const Workload& work,
                     const std::string& name);

private:
  template <typename T>
  nlohmann::json run_typed(const RegisteredVariant& variant, const Workload& work,
                           const std::string& name);
  template <typename T>
  Ending qualify(const RegisteredVariant& variant);
  template <typename T>
  const OracleRun& oracle(const Workload& work);
  template <typename T>
  void judge(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
             const SharedMemory& trace, nlohmann::json& row);
  template <typename T>
  void verify(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
              const SharedMemory& trace, nlohmann::json& row);
  template <typename T>
  void verify_answers(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
                      const SharedMemory& trace, nlohmann::json& row);
  template <typename T>
  void check_single_steps(const RegisteredVariant& variant, const Workload& work,
                          nlohmann::json& row);
  template <typename T>
  void save(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
            const nlohmann::json& row) const;

  CellOptions options_;
  std::map<std::string, Ending> qualified_;      ///< variant and precision -> `ok`, or why not
  std::map<std::string, OracleRun> oracles_;     ///< by problem hash
  std::map<std::string, nlohmann::json> judged_; ///< variant, problem and answer -> verdict
};

} // namespace clusterbench

// Whether what a cell's child handed over is right: every distinct answer, against the oracle's run
// where that is affordable, and single passes from states of it.
#pragma once

#include "harness/judge/oracle.hpp"
#include "harness/problem/registry.hpp"
#include "harness/problem/workload.hpp"
#include "harness/run/shared_memory.hpp"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace clusterbench {

/// Beyond so many operations, of executed passes, the oracle does not repeat a run, and it is judged
/// by itself. The tests lower it.
double& oracle_budget();

/// Marks a ledger row wrong, and keeps the first message that says why.
void mark_wrong(nlohmann::json& row, const std::string& message);

/// Judges cells and remembers the oracle's runs, and the verdicts on bits that it has seen.
class CellJudge {
public:
  /// threads: of the variants; timeout: of the child that makes single passes.
  CellJudge(int threads, std::chrono::duration<double> timeout)
      : threads_(threads), timeout_(timeout) {}

  /// Verifies the answers that a child's report in `row` names, unless a round before gave the same
  /// bits, and one pass from several states; writes what it finds, and a status other than `ok`, into
  /// the row. memory: the answers; trace: the recorded passes. T is the precision of `work`. A child
  /// that crashes is a status; throws std::bad_alloc where memory for judging is missing.
  template <typename T>
  void judge(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
             const SharedMemory& trace, nlohmann::json& row);

private:
  template <typename T>
  const OracleRun& oracle(const Workload& work);
  template <typename T>
  void verify(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
              const SharedMemory& trace, nlohmann::json& row);
  template <typename T>
  void verify_answers(const RegisteredVariant& variant, const Workload& work, SharedMemory& memory,
                      const SharedMemory& trace, nlohmann::json& row);
  template <typename T>
  void check_single_steps(const RegisteredVariant& variant, const Workload& work,
                          const SharedMemory& trace, nlohmann::json& row);

  int threads_;
  std::chrono::duration<double> timeout_;
  std::map<std::string, OracleRun> oracles_;     ///< by problem hash
  std::map<std::string, nlohmann::json> judged_; ///< variant, problem and answer -> verdict
};

} // namespace clusterbench

// Whether what a cell's processes handed over is right.
#pragma once

#include "harness/campaign/cell_memory.hpp"
#include "harness/campaign/cell_task.hpp"
#include "harness/campaign/checking_process.hpp"
#include "harness/campaign/oracles.hpp"
#include "harness/judge/one_step_states.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench {

/// Marks a ledger row wrong or cheated, and keeps the first message that says why.
void mark(nlohmann::json& row, const std::string& status, const std::string& message);

/// Judges the answers of one cell. Those from judged starts are judged in full: against the
/// oracle's run where that is affordable, else by themselves and against a recording from the same
/// start. So are two of the samples beyond the smallest number, drawn when all are there. All
/// others are judged cheaply.
template <typename T>
class CellJudge {
public:
  CellJudge(const CellTask<T>& cell, Oracles& oracles, nlohmann::json& row);

  /// Takes a timed answer. Judges it at once where there is no memory to keep it until the end.
  void accept(TakenAnswer<T>&& answer);

  /// Records, makes single passes, judges what was accepted, and writes what it finds into the row.
  /// Nothing of it is timed. Throws WorkerFailure, and std::bad_alloc where memory is missing.
  void judge();

  /// The timed answer from the problem's own start; its spans live as long as this.
  const TakenAnswer<T>& own_answer() const;

private:
  bool is_judged_in_full(std::size_t start) const;
  void draw_late(std::size_t start);
  const OracleRun& oracle_of(std::size_t start, std::span<const T> values);
  void judge_in_full(const TakenAnswer<T>& answer, const TakenAnswer<T>* recorded);
  void judge_cheaply(const TakenAnswer<T>& answer);
  void judge_recording(const TakenAnswer<T>& recorded);
  void judge_single_passes(CheckingProcess<T>& process, const TakenAnswer<T>& recorded);
  void judge_single_pass(CheckingProcess<T>& process, const OneStepState<T>& state,
                         bool judges_precision);
  void note(const Verdict& verdict, const std::string& of);
  void mark_if_wrong(const Verdict& verdict, const std::string& of);

  const CellTask<T>& cell_;
  Declaration declaration_;
  Oracles& oracles_;
  nlohmann::json& row_;
  std::size_t budget_bytes_, kept_bytes_ = 0;
  std::vector<TakenAnswer<T>> kept_;
  std::vector<std::pair<std::uint64_t, std::size_t>> late_; ///< drawn so far: number and start
  nlohmann::json own_verdict_; ///< of the recording from the problem's own start
  std::size_t judged_in_full_ = 0, judged_cheaply_ = 0;
};

} // namespace clusterbench

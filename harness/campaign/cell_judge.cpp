#include "harness/campaign/cell_judge.hpp"

#include "datasets/file_in_place.hpp"
#include "harness/judge/collapse.hpp"
#include "harness/judge/nearly_equal_pairs.hpp"
#include "harness/judge/verifier.hpp"
#include "harness/problem/problem_key.hpp"
#include "harness/system/available_memory.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using nlohmann::json;

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
          {"labels_differ", verdict.share_of_labels_off()},
          {"sampled", verdict.sampled},
          {"early_stop", verdict.early_stop}};
}

} // namespace

void mark(json& row, const std::string& status, const std::string& message) {
  if (row["status"] == "ok") {
    row["status"] = status;
    row["message"] = message;
  }
}

template <typename T>
CellJudge<T>::CellJudge(const CellTask<T>& cell, Oracles& oracles, json& row)
    : cell_(cell), declaration_(cell.variant.meta, cell.variant.centres_points), oracles_(oracles),
      row_(row), budget_bytes_(cell.options.memory_limit > 0 ? cell.options.memory_limit / 8
                                                             : available_memory_bytes() / 4) {
  row_["verification"] = json::array();
}

template <typename T>
bool CellJudge<T>::is_judged_in_full(std::size_t start) const {
  return start == cell_.own_position() || start == kFirstOfWholeAnswers + cell_.judged_whole ||
         std::ranges::find(cell_.judged, start) != cell_.judged.end() ||
         std::ranges::find(late_, start, &std::pair<std::uint64_t, std::size_t>::second) !=
             late_.end();
}

// Two late samples with the lowest secret numbers, which variants of a problem mostly share.
template <typename T>
void CellJudge<T>::draw_late(std::size_t start) {
  constexpr std::size_t kLate = 2;
  if (!cell_.is_late(start)) {
    return;
  }
  late_.emplace_back(judging_number(cell_.seed, cell_.work.hash, start), start);
  std::ranges::sort(late_);
  late_.resize(std::min(late_.size(), kLate));
}

// The own start may take the budget alone; the other judged ones share it.
template <typename T>
const OracleRun& CellJudge<T>::oracle_of(std::size_t start, std::span<const T> values) {
  const double starts = 2.0 + static_cast<double>(cell_.judged.size());
  return oracles_.of(cell_.work.spec.family, cell_.problem_from(values), cell_.work.points->key,
                     start == cell_.own_position() ? 1.0 : 1.0 / starts);
}

template <typename T>
void CellJudge<T>::note(const Verdict& verdict, const std::string& of) {
  if (!verdict.right() || row_.at("verification").empty()) {
    json entry = to_json(verdict);
    entry["of"] = of;
    row_["verification"].push_back(entry);
  }
  mark_if_wrong(verdict, of);
}

template <typename T>
void CellJudge<T>::mark_if_wrong(const Verdict& verdict, const std::string& of) {
  if (!verdict.right()) {
    mark(row_, "wrong", fmt::format("{}: {}", of, verdict.message()));
  }
}

template <typename T>
void CellJudge<T>::accept(TakenAnswer<T>&& answer) {
  draw_late(answer.start);
  const std::size_t bytes = answer.bytes();
  if (is_judged_in_full(answer.start) || kept_bytes_ + bytes <= budget_bytes_) {
    kept_bytes_ += bytes;
    kept_.push_back(std::move(answer));
  } else {
    judge_cheaply(answer);
  }
}

template <typename T>
const TakenAnswer<T>& CellJudge<T>::own_answer() const {
  return *std::ranges::find(kept_, cell_.own_position(), &TakenAnswer<T>::start);
}

template <typename T>
void CellJudge<T>::judge_cheaply(const TakenAnswer<T>& answer) {
  ++judged_cheaply_;
  const std::vector<T> start = cell_.start(answer.start);
  note(verify_cheaply(declaration_, cell_.problem_from(start), answer.view(), verify_options()),
       fmt::format("answer from start {}", answer.start));
}

template <typename T>
void CellJudge<T>::judge_in_full(const TakenAnswer<T>& answer, const TakenAnswer<T>* recorded) {
  ++judged_in_full_;
  const std::vector<T> start = cell_.start(answer.start);
  const Problem<T> problem = cell_.problem_from(start);
  const std::string of = fmt::format("answer from start {}", answer.start);
  const OracleRun& oracle = oracle_of(answer.start, start);
  note(verify_answer(declaration_, problem, answer.view(), oracle, verify_options()), of);
  if (recorded == nullptr) {
    return;
  }
  Declaration declaration = declaration_;
  declaration.deterministic = declaration.deterministic && !answer.rotated;
  const std::string difference = difference_in_bits(*recorded, answer);
  if (declaration.deterministic && !difference.empty()) {
    mark(row_, "wrong",
         fmt::format(
             "determinism: the recorded and the timed {} differ: {}; but the variant says that a "
             "start gives the same bits every time",
             of, difference));
  } else if (!oracle.reaches(answer.iterations)) {
    note(verify_same(declaration, problem, recorded->view(), answer.view(), verify_options()), of);
  }
}

template <typename T>
void CellJudge<T>::judge_recording(const TakenAnswer<T>& recorded) {
  ++judged_in_full_;
  const std::vector<T> start = cell_.start(recorded.start);
  const Problem<T> problem = cell_.problem_from(start);
  const OracleRun& oracle = oracle_of(recorded.start, start);
  const bool whole = oracle.reaches(recorded.iterations);
  const Verdict verdict =
      verify_answer(declaration_, problem, recorded.view(), oracle, verify_options());
  const std::string of = fmt::format("recording from start {}", recorded.start);
  if (recorded.start != cell_.own_position()) {
    note(verdict, of);
    return;
  }
  mark_if_wrong(verdict, of);
  row_["oracle"] = whole ? "whole run" : "single steps only";
  own_verdict_ = to_json(verdict);
  own_verdict_["of"] = "recording from the problem's own start";
  if (cell_.work.spec.family == Family::fcm) {
    row_["centres_apart"] = centres_apart<T>(problem, recorded.centroids);
  }
  if (whole) {
    row_["trace"] = {{"loss", verdict.trace.loss}, {"inertia", verdict.trace.inertia}};
    row_["early_stop"] = verdict.early_stop;
    row_["still_moving"] = oracle.still_moving;
    row_["stood_still_at"] = oracle.stood_still_at;
    row_["empty_at"] = oracle.empty_at;
  }
}

// From states of the oracle's run, or the start and a late one of the variant's own; and from pairs
// of centroids that approximate products cannot tell apart.
template <typename T>
void CellJudge<T>::judge_single_passes(CheckingProcess<T>& process,
                                       const TakenAnswer<T>& recorded) {
  const Problem<T>& problem = cell_.problem;
  std::vector<OneStepState<T>> states;
  const std::vector<T> own = cell_.start(cell_.own_position());
  if (row_.value("oracle", "") == "whole run") {
    states = one_step_states(cell_.work.spec.family, problem, oracle_of(cell_.own_position(), own));
  } else {
    OneStepState<T> state{"the own start", {}, {}};
    (cell_.work.starts_from_memberships ? state.memberships : state.centroids) = own;
    states.push_back(std::move(state));
    const std::size_t size = problem.k * problem.d;
    const std::size_t passes = recorded.recorded.size() / size;
    if (passes > 1 && !cell_.work.starts_from_memberships) {
      const auto late = recorded.recorded.end() - static_cast<std::ptrdiff_t>(2 * size);
      states.push_back({fmt::format("after pass {} of its own run", passes - 1),
                        {late, late + static_cast<std::ptrdiff_t>(size)},
                        {}});
    }
  }
  row_["single_steps"] = json::array();
  for (const OneStepState<T>& state : states) {
    judge_single_pass(process, state, /*judges_precision=*/true);
  }
  // Whoever claims no exact labels need not tell such pairs apart.
  if (cell_.work.spec.family == Family::kmeans && declaration_.approximate_within == 0.0) {
    const NearlyEqualPairs<T> pairs = nearly_equal_pairs(problem, cell_.seed);
    row_["nearly_equal_pairs_tell"] = pairs.telling_share;
    judge_single_pass(process, {"pairs of nearly equal centroids", pairs.centroids, {}},
                      /*judges_precision=*/false); // no user's centroids lie there
  }
}

template <typename T>
void CellJudge<T>::judge_single_pass(CheckingProcess<T>& process, const OneStepState<T>& state,
                                     bool judges_precision) {
  const TakenAnswer<T> answer =
      process.single_pass(state.centroids.empty() ? state.memberships : state.centroids);
  VerifyOptions options = verify_options();
  options.judges_precision = judges_precision;
  const Verdict verdict =
      verify_one_step(declaration_, one_pass_problem(cell_.problem, state), answer.view(), options);
  json entry = to_json(verdict);
  entry["state"] = state.name;
  row_["single_steps"].push_back(entry);
  mark_if_wrong(verdict, fmt::format("single step from {}", state.name));
}

template <typename T>
void CellJudge<T>::judge() {
  if (points_key(cell_.problem) != cell_.work.points->key) {
    if (!datasets::mapped_file_is_intact()) {
      throw Interrupted(); // not by the variant
    }
    throw WorkerFailure("cheated", "the points of the problem have been changed");
  }
  std::vector<TakenAnswer<T>> recordings;
  {
    CheckingProcess<T> process(cell_);
    for (const TakenAnswer<T>& answer : kept_) {
      if (is_judged_in_full(answer.start) && answer.start != cell_.own_position()) {
        recordings.push_back(process.record(answer.start));
      }
    }
    recordings.push_back(process.record(cell_.own_position()));
    row_.update(process.report());
    judge_recording(recordings.back());
    judge_single_passes(process, recordings.back());
  }
  for (const TakenAnswer<T>& recorded : recordings) {
    if (recorded.start != cell_.own_position()) {
      judge_recording(recorded);
    }
  }
  for (const TakenAnswer<T>& answer : kept_) {
    if (row_["status"] != "ok") {
      break; // once one is wrong, only that is of interest
    }
    if (!is_judged_in_full(answer.start)) {
      judge_cheaply(answer);
      continue;
    }
    const auto recorded = std::ranges::find(recordings, answer.start, &TakenAnswer<T>::start);
    judge_in_full(answer, recorded == recordings.end() ? nullptr : &*recorded);
  }
  row_["verification"].push_back(own_verdict_);
  row_["answers_judged"] = {{"in_full", judged_in_full_}, {"cheaply", judged_cheaply_}};
}

template class CellJudge<float>;
template class CellJudge<double>;

} // namespace clusterbench

#include "harness/gate/answer_check.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {

template <typename T>
bool AnswerCheck<T>::judges_values() const {
  return affordable_passes(cell_.problem, oracle_budget()) >= cell_.problem.stop.max_iterations;
}

template <typename T>
std::string AnswerCheck<T>::wrong(const TakenAnswer<T>& answer, bool in_full) {
  const std::vector<T> start = cell_.start(answer.start);
  const Problem<T> problem = cell_.problem_from(start);
  const Declaration declaration(cell_.variant.meta, cell_.variant.centres_points);
  const Verdict verdict =
      in_full
          ? verify_answer(declaration, problem, answer.view(),
                          oracles_.of(cell_.work.spec.family, problem, cell_.work.points->key, 1.0),
                          verify_options())
          : verify_cheaply(declaration, problem, answer.view(), verify_options());
  return verdict.right() ? "" : fmt::format("from start {}: {}", answer.start, verdict.message());
}

template <typename T>
std::string AnswerCheck<T>::complaint(const std::vector<TakenAnswer<T>>& judged, Side side) {
  std::vector<TakenAnswer<T>>& known = known_[index(side)];
  for (const TakenAnswer<T>& answer : judged) {
    const auto before = std::ranges::find(known, answer.start, &TakenAnswer<T>::start);
    const std::string difference = before == known.end() ? "" : difference_in_bits(*before, answer);
    if (before != known.end() && difference.empty()) {
      continue;
    }
    if (before != known.end() && cell_.variant.meta.deterministic) {
      return fmt::format(
          "determinism: two processes gave different bits from start {}: {}; but the "
          "variant says that a start gives the same every time",
          answer.start, difference);
    }
    if (const std::string found = wrong(answer, /*in_full=*/true); !found.empty()) {
      return found;
    }
    if (before == known.end()) {
      known.push_back(answer);
    }
  }
  return {};
}

template <typename T>
std::string AnswerCheck<T>::complaint(const PairSamples<T>& pair, Side side) {
  if (!pair.clock[index(side)].empty()) {
    return pair.clock[index(side)];
  }
  const std::string found = complaint(pair.judged[index(side)], side);
  return found.empty() ? wrong(pair.newest[index(side)], /*in_full=*/false) : found;
}

template class AnswerCheck<float>;
template class AnswerCheck<double>;

} // namespace clusterbench

#include "harness/compare/answer_check.hpp"

#include "harness/judge/oracle_cache.hpp"
#include "harness/peer/peers.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {
namespace {

// Beyond so many operations the oracle does not repeat the run, as in a campaign.
constexpr double kOracleBudget = 4e11;

double operations(const Workload& work) {
  return 2.0 * static_cast<double>(work.n) * static_cast<double>(work.d) *
         static_cast<double>(work.k) * static_cast<double>(work.stop.max_iterations);
}

std::string complaint_of(const Verdict& verdict) {
  return verdict.right() ? "" : verdict.message();
}

} // namespace

template <typename T>
std::string AnswerCheck<T>::complaint(Side side, const PacedAnswer& answer) {
  std::string& first = first_[index(side)];
  const bool first_of_side = first.empty();
  if (first_of_side) {
    first = answer.digest;
  } else if (meta_.deterministic && first != answer.digest) {
    return "determinism: two processes gave different bits, but the variant says that every run "
           "gives the same";
  }
  if (const auto known = known_.find(answer.digest); known != known_.end()) {
    return known->second;
  }
  if (!judges_values()) {
    return known_[answer.digest] = "";
  }
  const Result<T> result = builds_.result<T>(side);
  std::string wrong = wrong_run(answer, result);
  // The bits of a variant that is not deterministic are new in every pair, its passes are the same.
  if (wrong.empty() && (meta_.deterministic || first_of_side)) {
    wrong = wrong_pass(side, answer, result);
  }
  return known_[answer.digest] = wrong;
}

template <typename T>
std::string AnswerCheck<T>::wrong_run(const PacedAnswer& answer, const Result<T>& result) {
  const Problem<T> problem = work_.problem<T>(threads_);
  if (!oracles_.contains(work_.hash)) {
    oracles_[work_.hash] =
        cached_oracle_run(oracle_cache_folder(), work_.hash, work_.spec.family, problem);
  }
  const Answer<T> handed_over = {
      result.labels, result.centroids, result.memberships, answer.iterations, {}};
  return complaint_of(
      verify_answer(declaration_of(meta_), problem, handed_over, oracles_.at(work_.hash)));
}

// Labels and memberships follow from the state that the last pass began with, which an answer does not
// hold. A deterministic variant finds it once more in a run that is one pass shorter. Of any other
// variant that is the state of another run, from which it runs a pass of its own.
template <typename T>
std::string AnswerCheck<T>::wrong_pass(Side side, const PacedAnswer& answer,
                                       const Result<T>& result) {
  if (answer.iterations < 2) {
    return ""; // the only pass began with the initial state
  }
  const std::size_t passes = answer.iterations - 1;
  const PacedAnswer before = builds_.passes(side, passes);
  if (meta_.deterministic && before.iterations != passes) {
    return fmt::format("stop rule: a run that was to end after {} passes ended after {}, one that "
                       "was not after {}",
                       passes, before.iterations, answer.iterations);
  }
  const Result<T> returned = builds_.result_of_passes<T>();
  OneStepState<T> state{fmt::format("after {} passes", before.iterations), {}, {}};
  std::vector<T>& values = work_.starts_from_memberships ? state.memberships : state.centroids;
  const std::span<const T> kept =
      work_.starts_from_memberships ? returned.memberships : returned.centroids;
  values.assign(kept.begin(), kept.end());
  Answer<T> last = {result.labels, result.centroids, result.memberships, 1, {}};
  if (!meta_.deterministic) {
    SharedMemory initial("state", values.size() * sizeof(T));
    std::ranges::copy(values, initial.as<T>().begin());
    last.iterations = builds_.passes(side, 1, initial.fd()).iterations;
    const Result<T> one = builds_.result_of_passes<T>();
    last = {one.labels, one.centroids, one.memberships, last.iterations, {}};
  }
  const Problem<T> problem = work_.problem<T>(threads_);
  const std::string wrong =
      complaint_of(verify_one_step(declaration_of(meta_), one_pass_problem(problem, state), last));
  return wrong.empty() ? "" : fmt::format("pass {}: {}", before.iterations + 1, wrong);
}

template <typename T>
bool AnswerCheck<T>::judges_values() const {
  return operations(work_) <= kOracleBudget;
}

template class AnswerCheck<float>;
template class AnswerCheck<double>;

} // namespace clusterbench

#include "harness/compare/answer_check.hpp"

#include "harness/judge/oracle_cache.hpp"
#include "harness/peer/peers.hpp"

#include <utility>

namespace clusterbench {
namespace {

// Beyond so many operations the oracle does not repeat the run, as in a campaign.
constexpr double kOracleBudget = 4e11;

double operations(const Workload& work) {
  return 2.0 * static_cast<double>(work.n) * static_cast<double>(work.d) *
         static_cast<double>(work.k) * static_cast<double>(work.stop.max_iterations);
}

} // namespace

template <typename T>
std::string AnswerCheck<T>::complaint(Side side, const PacedAnswer& answer,
                                      const Result<T>& result) {
  std::string& first = first_[index(side)];
  if (first.empty()) {
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
  const Problem<T> problem = work_.problem<T>(threads_);
  if (!oracles_.contains(work_.hash)) {
    oracles_[work_.hash] =
        cached_oracle_run(oracle_cache_folder(), work_.hash, work_.spec.family, problem);
  }
  const Answer<T> handed_over = {
      result.labels, result.centroids, result.memberships, answer.iterations, {}};
  const Verdict verdict =
      verify_answer(declaration_of(meta_), problem, handed_over, oracles_.at(work_.hash));
  return known_[answer.digest] = verdict.right() ? "" : verdict.message();
}

template <typename T>
bool AnswerCheck<T>::judges_values() const {
  return operations(work_) <= kOracleBudget;
}

template class AnswerCheck<float>;
template class AnswerCheck<double>;

} // namespace clusterbench

#include "harness/judge/run_view.hpp"

#include "harness/judge/known_sets.hpp"
#include "harness/judge/rounding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace clusterbench {

template <typename T>
RunView<T>::RunView(const Declaration& declared, const Problem<T>& problem,
                    const JudgedAnswer<T>& answer, double budget, bool returned)
    : declared_(declared), problem_(problem), answer_(answer), seen_(answer.iterations + 1) {
  const std::vector<bool> chosen = sets_to_look_at(budget, returned);
  std::optional<PassView> before;
  for (std::size_t s = 0; s <= passes(); ++s) {
    const bool only_memberships = s == 0 && from_memberships();
    if (!chosen[s] || (only_memberships && set(1).empty())) {
      before.reset();
      continue;
    }
    PassView view = look_at(s);
    seen_[s] = summary(view, !only_memberships, before ? &*before : nullptr);
    if (only_memberships) {
      before.reset();
    } else {
      before = std::move(view);
    }
  }
}

template <typename T>
std::span<const T> RunView<T>::set(std::size_t number) const {
  return known_set(problem_, answer_, number);
}

/// All if the budget allows, otherwise those of the end and the beginning and then an even spread.
/// Where the returned set is compared with another's it comes first, elsewhere the last pass does.
template <typename T>
std::vector<bool> RunView<T>::sets_to_look_at(double budget, bool returned) {
  std::vector<bool> chosen(passes() + 1, false);
  const double affordable = budget / cost_of_look(declared_.family, problem_);
  if (affordable < 1.0 && !returned) {
    sampled_ = true;
    return chosen;
  }
  if (answer_.recorded.empty() && passes() > 1) { // the sets between are unknown
    // The exact step judges the last pass. Only whether one more would change labels is open.
    const bool both =
        affordable >= 2.0 && !answer_.entering.empty() && declared_.family == Family::kmeans &&
        problem_.stop.kind == StopRule::Kind::iterations && passes() < problem_.stop.max_iterations;
    chosen[passes()] = returned || both;
    chosen[passes() - 1] = both;
    return chosen;
  }
  if (affordable >= static_cast<double>(passes() + 1)) {
    return std::vector<bool>(passes() + 1, true);
  }
  sampled_ = true;
  std::size_t left = affordable < 2.0 ? 1 : static_cast<std::size_t>(affordable);
  const auto choose = [&](std::size_t number) {
    if (left > 0 && !chosen[number]) {
      chosen[number] = true;
      --left;
    }
  };
  const std::size_t last = passes();
  const std::size_t third_to_last = last - std::min<std::size_t>(last, 2);
  for (const std::size_t number : returned
                                      ? std::array{last, last - 1, std::size_t{0}, third_to_last}
                                      : std::array{last - 1, third_to_last, last, std::size_t{0}}) {
    choose(number);
  }
  const std::size_t spread = std::max<std::size_t>(left, 1);
  for (std::size_t i = 1; i <= spread; ++i) {
    choose(passes() * i / (spread + 1));
  }
  return chosen;
}

/// Views one set and compares what it should have produced with the next one.
template <typename T>
PassView RunView<T>::look_at(std::size_t number) {
  const std::span<const T> produced = number < passes() ? set(number + 1) : std::span<const T>{};
  const std::span<const T> entering = set(number);
  PassView view;
  if (number == 0 && from_memberships()) {
    view.means = view_means_of_memberships(declared_, problem_, problem_.memberships, produced);
  } else {
    view = view_pass(declared_, problem_, entering, produced);
  }
  if (!produced.empty()) {
    ++passes_compared_;
    const bool keeps_empty = declared_.family == Family::kmeans;
    const auto where =
        declared_.reseeds_empty
            ? view.means.violation_if_reseeded(produced)
            : view.means.violation(produced, keeps_empty ? entering : std::span<const T>{});
    if (where && !wrong_pass_) {
      wrong_pass_ = fmt::format("iteration {}, {}", number + 1, *where);
    }
  }
  return view;
}

template <typename T>
SeenSet RunView<T>::summary(const PassView& view, bool has_objective,
                            const PassView* before) const {
  SeenSet seen;
  seen.loss = view.loss;
  seen.loss_rounding = view.loss_rounding;
  seen.objective = view.objective;
  seen.may_rise = view.choice;
  seen.doubt = view.doubt;
  seen.choice = view.choice;
  seen.heavy_doubt = heavy_doubt(view);
  seen.next_objective = view.next_objective;
  seen.has_objective = has_objective;
  seen.may_have_empty = view.means.possibly_empty() > 0;
  for (std::size_t i = 0; i < view.means.rounding.size(); ++i) {
    // A mean that is off by r raises the sum of squared distances by weight * r^2.
    const double off =
        view.means.weight[i / problem_.d] * view.means.rounding[i] * view.means.rounding[i];
    seen.may_rise += 2.0 * off;
    seen.mean_noise += off * kUsualOfWorst * kUsualOfWorst;
  }
  if (before != nullptr) {
    seen.follows = true;
    for (std::size_t i = 0; i < problem_.n; ++i) {
      const bool doubtful = view.doubtful[i] != 0 || before->doubtful[i] != 0;
      seen.doubtful_labels += doubtful ? 1 : 0;
      seen.changed_labels += !doubtful && view.labels[i] != before->labels[i] ? 1 : 0;
    }
  }
  return seen;
}

template <typename T>
double RunView<T>::squared_shift(std::size_t number) const {
  const std::span<const T> now = set(number);
  const std::span<const T> before = set(number - 1);
  double sum = 0.0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double shift = static_cast<double>(now[i]) - static_cast<double>(before[i]);
    sum += shift * shift;
  }
  return sum;
}

template class RunView<float>;
template class RunView<double>;

} // namespace clusterbench

// A whole run as float64 sees it: the recorded passes, one after another, as far as they are known
// and the budget allows.
#pragma once

#include "harness/judge/pass_view.hpp"
#include "harness/judge/verifier.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

/// What is kept of the view of one set of centroids.
struct SeenSet {
  double loss = 0.0;
  double loss_rounding = 0.0;
  double objective = 0.0;
  double may_rise = 0.0;       ///< by how much the next objective may exceed this one
  double doubt = 0.0;          ///< as PassView::doubt
  double choice = 0.0;         ///< as PassView::choice
  double heavy_doubt = 0.0;    ///< as heavy_doubt()
  double next_objective = 0.0; ///< as PassView::next_objective; only if the next set is known
  double mean_noise = 0.0;     ///< what sums in T usually add to that
  bool may_have_empty = false;
  bool has_objective = false;      ///< the set was looked at, and there are centroids in it
  bool follows = false;            ///< the set before it has an objective, too
  std::size_t changed_labels = 0;  ///< against the set before, beyond rounding
  std::size_t doubtful_labels = 0; ///< in this set or the one before
};

/// Centroid sets are numbered by the passes behind them: set 0 is the initial state, set s is what
/// pass s (counted from 1) produced, set passes() is the returned one. Refers to its arguments.
template <typename T>
class RunView {
public:
  /// The answer must have the right shapes and be finite. returned: look at the returned set even
  /// if that alone exceeds the budget, because its objective is compared.
  RunView(const Declaration& declared, const Problem<T>& problem, const JudgedAnswer<T>& answer,
          double budget, bool returned);

  std::size_t passes() const { return answer_.iterations; }
  bool from_memberships() const { return !problem_.memberships.empty(); }
  bool sampled() const { return sampled_; }

  /// The centroids of a set; empty if they are unknown, or if the set is initial memberships.
  std::span<const T> set(std::size_t number) const;
  const SeenSet& seen(std::size_t number) const { return seen_[number]; }

  /// Whether a pass could be compared with the means that it should have produced, and the first
  /// one that is wrong.
  bool compared_passes() const { return passes_compared_ > 0; }
  const std::optional<std::string>& wrong_pass() const { return wrong_pass_; }
  /// Whether every pass was compared and none is wrong: then the run is right by induction.
  bool every_pass_is_right() const { return every_pass_compared() && !wrong_pass_; }
  bool every_pass_compared() const { return passes_compared_ == passes(); }

  /// Summed over all centroids, of set - set before; both must be known.
  double squared_shift(std::size_t number) const;

private:
  std::vector<bool> sets_to_look_at(double budget, bool returned);
  PassView look_at(std::size_t number);
  SeenSet summary(const PassView& view, bool has_objective, const PassView* before) const;

  const Declaration& declared_;
  const Problem<T>& problem_;
  const JudgedAnswer<T>& answer_;
  std::vector<SeenSet> seen_; ///< by number
  bool sampled_ = false;
  std::size_t passes_compared_ = 0;
  std::optional<std::string> wrong_pass_;
};

/// Operations of one look at all points: FCM forms every mean from every point.
template <typename T>
double cost_of_look(Family family, const Problem<T>& problem) {
  return (family == Family::fcm ? 6.0 : 3.0) * static_cast<double>(problem.n) *
         static_cast<double>(problem.k) * static_cast<double>(problem.d);
}

} // namespace clusterbench

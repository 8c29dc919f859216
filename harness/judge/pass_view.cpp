#include "harness/judge/pass_view.hpp"

#include "harness/judge/distance_table.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/origin.hpp"
#include "harness/judge/row_chunks.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace clusterbench {
namespace {

/// Sums of one chunk of rows, taken relative to the produced centroids: sum(w * (x - produced)) is
/// W * (mean - produced) without the cancellation of two large sums, and a mean that differs from
/// the float64 one because of doubtful weight h differs by at most sum(h * |x - produced|) / W.
template <typename T>
class MeanSums {
public:
  /// Refers to its arguments.
  MeanSums(std::span<const T> produced, std::size_t k, std::size_t d, const Origin& origin)
      : produced_(produced), origin_(&origin), d_(d), weight_(k), doubtful_(k), deviation_(k, d),
        magnitude_(k * d), squares_(k * d), slack_(k * d), difference_(d) {}

  /// Adds the point x with a weight that rounding leaves uncertain by `doubt`.
  void add(std::size_t j, const T* x, double weight, double doubt) {
    weight_[j].add(weight);
    doubtful_[j].add(doubt);
    const T* const produced = produced_.data() + j * d_;
    double* const magnitude = magnitude_.data() + j * d_;
    double* const squares = squares_.data() + j * d_;
    for (std::size_t f = 0; f < d_; ++f) {
      const double value = static_cast<double>(x[f]);
      difference_[f] = value - static_cast<double>(produced[f]);
      magnitude[f] += weight * std::abs(value - origin_->at[f]);
      squares[f] += weight * difference_[f] * difference_[f];
    }
    deviation_.add(j, difference_.data(), weight);
    if (doubt > 0.0) {
      double* const slack = slack_.data() + j * d_;
      for (std::size_t f = 0; f < d_; ++f) {
        slack[f] += doubt * std::abs(difference_[f]);
      }
    }
  }

  void add(const MeanSums& other) {
    for (std::size_t j = 0; j < weight_.size(); ++j) {
      weight_[j].add(other.weight_[j]);
      doubtful_[j].add(other.doubtful_[j]);
    }
    deviation_.add(other.deviation_);
    for (std::size_t i = 0; i < slack_.size(); ++i) {
      magnitude_[i] += other.magnitude_[i];
      squares_[i] += other.squares_[i];
      slack_[i] += other.slack_[i];
    }
  }

  /// rounding_of(weight, mean, deviation): relative error that T allows for a mean of so much weight,
  /// of values with this mean and this standard deviation. What is
  /// rounded is measured from the variant's origin; adding that to the mean rounds once more.
  template <typename RoundingOf>
  MeansView view(const RoundingOf& rounding_of) const {
    MeansView result;
    result.deviation.resize(slack_.size());
    result.rounding.resize(slack_.size());
    result.slack.resize(slack_.size());
    result.origin = origin_->at;
    for (std::size_t j = 0; j < weight_.size(); ++j) {
      const double weight = weight_[j].value();
      result.weight.push_back(weight);
      result.doubtful.push_back(doubtful_[j].value());
      if (weight > 0.0) {
        for (std::size_t i = j * d_; i < (j + 1) * d_; ++i) {
          result.deviation[i] = deviation_.value(j, i - j * d_) / weight;
          const double off = result.deviation[i];
          const double spread = std::sqrt(std::max(squares_[i] / weight - off * off, 0.0));
          const double mean = static_cast<double>(produced_[i]) + off - origin_->at[i - j * d_];
          result.rounding[i] = rounding_of(weight, mean, spread) *
                               (magnitude_[i] / weight + origin_->in_doubt[i - j * d_]);
          if (origin_->is_mean) {
            result.rounding[i] +=
                2.0 * unit_roundoff<T> * std::abs(static_cast<double>(produced_[i]));
          }
          result.slack[i] = slack_[i] / weight;
        }
      }
    }
    return result;
  }

private:
  std::span<const T> produced_;
  const Origin* origin_;
  std::size_t d_;
  std::vector<CompensatedSum> weight_;
  std::vector<CompensatedSum> doubtful_;
  CompensatedSums deviation_;
  std::vector<double> magnitude_; ///< sum(w * |x - origin|)
  std::vector<double> squares_;   ///< sum(w * (x - produced)^2)
  std::vector<double> slack_;
  std::vector<double> difference_; ///< scratch
};

/// Everything one chunk of rows contributes to a PassView.
template <typename T>
struct Partial {
  Partial(std::span<const T> produced, std::size_t k, std::size_t d, const Origin& origin)
      : means(produced, produced.empty() ? 0 : k, produced.empty() ? 1 : d, origin), squared(k),
        error(k), ranges(k) {}
  MeanSums<T> means;
  CompensatedSum loss, loss_rounding, objective, choice, weight, doubt;
  std::vector<double> squared, error; ///< scratch
  MembershipRanges ranges;            ///< scratch

  void add(const Partial& other) {
    means.add(other.means);
    loss.add(other.loss);
    loss_rounding.add(other.loss_rounding);
    objective.add(other.objective);
    choice.add(other.choice);
    weight.add(other.weight);
    doubt.add(other.doubt);
  }
};

/// Runs body(row, partial) over all rows and returns the combined partial.
template <typename Partial, typename Body>
Partial combine_rows(std::size_t n, std::size_t values_per_chunk, const Partial& empty,
                     const Body& body) {
  const auto chunks = row_chunks(n, values_per_chunk);
  std::vector<Partial> partials(chunks.size(), empty);
  for_each_chunk(chunks, [&](std::size_t index, RowChunk chunk) {
    for (std::size_t row = chunk.begin; row < chunk.end; ++row) {
      body(row, partials[index]);
    }
  });
  for (std::size_t i = 1; i < partials.size(); ++i) {
    partials[0].add(partials[i]);
  }
  return std::move(partials[0]);
}

/// k-means: a point weighs 1 in its cluster; between clusters closer than rounding it may weigh 1
/// or 0 in each.
template <typename T>
void add_hard_assignment(const Problem<T>& problem, std::size_t row, std::size_t best, bool sums,
                         Partial<T>& part, PassView& view) {
  const T* const x = problem.points.data() + row * problem.d;
  const double smallest = part.squared[best];
  const double error = part.error[best];
  double farthest = smallest;
  for (std::size_t j = 0; j < problem.k; ++j) {
    const double gap = error + part.error[j];
    if (j != best && gap > 0.0 && part.squared[j] - smallest <= gap) {
      farthest = std::max(farthest, part.squared[j]);
      view.doubtful[row] = 1;
      if (sums) {
        part.means.add(j, x, 0.0, 1.0);
      }
    }
  }
  const double doubt = view.doubtful[row] != 0 ? 1.0 : 0.0;
  if (sums) {
    part.means.add(best, x, 1.0, doubt);
  }
  const double distance = std::sqrt(smallest);
  part.loss.add(distance);
  // sqrt(D + e) - sqrt(D), and the reach of whichever doubtful centroid is taken
  part.loss_rounding.add(std::sqrt(farthest + error) - distance);
  part.objective.add(smallest);
  part.choice.add(farthest - smallest);
  part.weight.add(1.0);
  part.doubt.add(doubt);
}

/// FCM: a point weighs u^m in every cluster, within what the range of u allows.
template <typename T>
void add_fuzzy_assignment(const Problem<T>& problem, std::size_t row, bool sums, Partial<T>& part,
                          PassView& view) {
  constexpr double u = unit_roundoff<T>;
  const double m = problem.fuzzifier;
  const double powers = power_rounding(m, u);
  part.ranges.compute(part.squared, part.error, m, u);
  const auto label = static_cast<std::size_t>(view.labels[row]);
  for (std::size_t j = 0; j < problem.k; ++j) {
    const double weight = power(part.ranges.value[j], m);
    const double doubt =
        std::max(power(part.ranges.high[j], m) - weight, weight - power(part.ranges.low[j], m)) +
        powers * weight;
    if (sums) {
      part.means.add(j, problem.points.data() + row * problem.d, weight, doubt);
    }
    part.loss.add(weight * part.squared[j]);
    part.loss_rounding.add(weight * part.error[j] + doubt * part.squared[j]);
    part.choice.add(doubt * part.squared[j]);
    part.weight.add(weight);
    part.doubt.add(std::min(doubt, 1.0));
    if (j != label && part.ranges.high[j] >= part.ranges.low[label]) {
      view.doubtful[row] = 1;
    }
  }
}

/// By how much moving the centroids from `entering` to the float64 means lowers the objective, with
/// the labels or memberships as they are.
template <typename T>
double descent(const MeansView& means, std::span<const T> entering, std::span<const T> produced) {
  const std::size_t d = produced.size() / means.weight.size();
  CompensatedSum sum;
  for (std::size_t i = 0; i < produced.size(); ++i) {
    const double moved =
        static_cast<double>(produced[i]) - static_cast<double>(entering[i]) + means.deviation[i];
    const double weight = means.weight[i / d];
    sum.add(weight > 0.0 ? weight * moved * moved : 0.0);
  }
  return sum.value();
}

} // namespace

template <typename T>
std::optional<std::string> MeansView::offence(std::span<const T> produced,
                                              std::span<const T> entering) const {
  const std::size_t d = produced.size() / weight.size();
  std::string where;
  double worst = 0.0;
  for (std::size_t j = 0; j < weight.size(); ++j) {
    const bool empty = !(weight[j] > 0.0);
    if ((empty && entering.empty()) || doubtful[j] >= std::max(weight[j], 1e-300)) {
      continue; // its old centroid is unknown, or rounding alone decides whether it is empty
    }
    for (std::size_t f = 0; f < d; ++f) {
      const std::size_t i = j * d + f;
      const double got = static_cast<double>(produced[i]);
      const double kept = empty ? static_cast<double>(entering[i]) : 0.0;
      const double off = empty ? kept - got : deviation[i];
      const double allowed = empty ? 4.0 * unit_roundoff<T> * (std::abs(kept) + std::abs(origin[f]))
                                   : rounding[i] + slack[i];
      if (!(std::abs(off) <= allowed) && !(std::abs(off) <= worst * allowed)) {
        worst = allowed > 0.0 ? std::abs(off) / allowed : std::numeric_limits<double>::max();
        where = fmt::format("cluster {}, feature {}: got {:.9g}, expected {:.9g} ({}; allowed "
                            "+-{:.2g})",
                            j, f, got, got + off,
                            empty ? std::string("empty, keeps its centroid")
                                  : fmt::format("mean of weight {:.9g}", weight[j]),
                            allowed);
      }
    }
  }
  return where.empty() ? std::nullopt : std::optional(where);
}

bool MeansView::may_have_empty() const {
  for (std::size_t j = 0; j < weight.size(); ++j) {
    if (!(weight[j] > doubtful[j])) {
      return true;
    }
  }
  return false;
}

template <typename T>
PassView view_pass(const Declaration& meta, const Problem<T>& problem, std::span<const T> entering,
                   std::span<const T> produced) {
  const DistanceTable<T> table(meta, problem, entering);
  const Origin origin = origin_of(meta, problem);
  const bool sums = !produced.empty();
  PassView view;
  view.labels.resize(problem.n);
  view.doubtful.resize(problem.n);
  const Partial<T> total = combine_rows(
      problem.n, sums ? 4 * problem.k * (problem.d + 1) : problem.k,
      Partial<T>(produced, problem.k, problem.d, origin), [&](std::size_t row, Partial<T>& part) {
        table.measure(row, part.squared, part.error);
        const std::size_t best = nearest(part.squared);
        view.labels[row] = static_cast<std::int32_t>(best);
        if (meta.family == Family::kmeans) {
          add_hard_assignment(problem, row, best, sums, part, view);
        } else {
          add_fuzzy_assignment(problem, row, sums, part, view);
        }
      });
  constexpr double u = unit_roundoff<T>;
  const double n = static_cast<double>(problem.n);
  view.loss = total.loss.value();
  view.loss_rounding = total.loss_rounding.value() + sum_rounding(n, u) * view.loss;
  view.objective = meta.family == Family::kmeans ? total.objective.value() : total.loss.value();
  view.choice = total.choice.value();
  view.doubt = total.doubt.value() / total.weight.value();
  if (sums) {
    view.means = total.means.view([&](double weight, double mean, double spread) {
      return meta.family == Family::kmeans ? mean_rounding(weight, mean, spread, u)
                                           : 2.0 * mean_rounding(n, u);
    });
    view.next_objective = view.objective - descent(view.means, entering, produced);
  }
  return view;
}

template <typename T>
MeansView view_means_of_labels(const Declaration& declared, const Problem<T>& problem,
                               std::span<const std::int32_t> labels, std::span<const T> produced) {
  const Origin origin = origin_of(declared, problem);
  const MeanSums<T> total = combine_rows(
      problem.n, 4 * problem.k * (problem.d + 1),
      MeanSums<T>(produced, problem.k, problem.d, origin), [&](std::size_t row, MeanSums<T>& part) {
        part.add(static_cast<std::size_t>(labels[row]), problem.points.data() + row * problem.d,
                 1.0, 0.0);
      });
  return total.view([](double count, double mean, double spread) {
    return mean_rounding(count, mean, spread, unit_roundoff<T>);
  });
}

template <typename T>
MeansView view_means_of_memberships(const Declaration& declared, const Problem<T>& problem,
                                    std::span<const T> memberships, std::span<const T> produced) {
  constexpr double u = unit_roundoff<T>;
  const double powers = power_rounding(problem.fuzzifier, u);
  const Origin origin = origin_of(declared, problem);
  const MeanSums<T> total = combine_rows(
      problem.n, 4 * problem.k * (problem.d + 1),
      MeanSums<T>(produced, problem.k, problem.d, origin), [&](std::size_t row, MeanSums<T>& part) {
        for (std::size_t j = 0; j < problem.k; ++j) {
          const double weight =
              power(static_cast<double>(memberships[row * problem.k + j]), problem.fuzzifier);
          part.add(j, problem.points.data() + row * problem.d, weight, powers * weight);
        }
      });
  const double n = static_cast<double>(problem.n);
  return total.view([&](double /*weight*/, double /*mean*/, double /*deviation*/) {
    return 2.0 * mean_rounding(n, u);
  });
}

template std::optional<std::string> MeansView::offence(std::span<const float>,
                                                       std::span<const float>) const;
template std::optional<std::string> MeansView::offence(std::span<const double>,
                                                       std::span<const double>) const;
template PassView view_pass(const Declaration&, const Problem<float>&, std::span<const float>,
                            std::span<const float>);
template PassView view_pass(const Declaration&, const Problem<double>&, std::span<const double>,
                            std::span<const double>);
template MeansView view_means_of_labels(const Declaration&, const Problem<float>&,
                                        std::span<const std::int32_t>, std::span<const float>);
template MeansView view_means_of_labels(const Declaration&, const Problem<double>&,
                                        std::span<const std::int32_t>, std::span<const double>);
template MeansView view_means_of_memberships(const Declaration&, const Problem<float>&,
                                             std::span<const float>, std::span<const float>);
template MeansView view_means_of_memberships(const Declaration&, const Problem<double>&,
                                             std::span<const double>, std::span<const double>);

} // namespace clusterbench

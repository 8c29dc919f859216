#include "harness/judge/pass_view.hpp"

#include "harness/judge/distance_table.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/mean_sums.hpp"
#include "harness/judge/membership_ranges.hpp"
#include "harness/judge/origin.hpp"
#include "harness/judge/row_chunks.hpp"
#include "harness/judge/weighed_rows.hpp"

#include <cmath>

namespace clusterbench {
namespace {

/// Everything one chunk of rows contributes to a PassView.
template <typename T>
struct Partial {
  Partial(std::span<const T> produced, std::size_t k, std::size_t d, const Origin& origin)
      : means(produced, produced.empty() ? 0 : k, produced.empty() ? 1 : d, origin) {}
  MeanSums<T> means;
  CompensatedSum loss, loss_rounding, objective, choice, weight, doubt, objective_in_doubt;

  void add(const Partial& other) {
    means.add(other.means);
    loss.add(other.loss);
    loss_rounding.add(other.loss_rounding);
    objective.add(other.objective);
    choice.add(other.choice);
    weight.add(other.weight);
    doubt.add(other.doubt);
    objective_in_doubt.add(other.objective_in_doubt);
  }
};

/// Memory of one thread.
struct Scratch {
  DistanceKernel::Scratch distances;
  std::vector<double> error; ///< [k]
  MembershipRanges ranges;
  WeighedRows weighed; ///< of fuzzy c-means, where sums are asked for
};

/// What adds one row after another to a partial.
template <typename T>
class Adder {
public:
  Adder(const Problem<T>& problem, bool sums, PassView& view)
      : problem_(problem), sums_(sums), view_(view) {}

  /// k-means: a point has its whole weight in its cluster; between clusters closer than rounding it
  /// may have that or none in each.
  void add_hard(std::size_t row, std::span<const double> squared, const Scratch& s,
                Partial<T>& part) const {
    const T* const x = problem_.points.data() + row * problem_.d;
    const auto best = static_cast<std::size_t>(view_.labels[row]);
    const double smallest = squared[best];
    const double error = s.error[best];
    const double weight = problem_.weight(row);
    double farthest = smallest;
    bool doubtful = false;
    unsigned near = 0; // nearly always one, which vectors tell sooner than the loop after it
    for (std::size_t j = 0; j < problem_.k; ++j) {
      near += squared[j] - smallest <= error + s.error[j] ? 1 : 0;
    }
    for (std::size_t j = 0; j < problem_.k && near > 1; ++j) {
      const double gap = error + s.error[j];
      if (squared[j] - smallest <= gap && gap > 0.0 && j != best) {
        farthest = std::max(farthest, squared[j]);
        doubtful = true;
        if (sums_) {
          part.means.add(j, x, 0.0, weight);
        }
      }
    }
    view_.doubtful[row] = doubtful ? 1 : 0;
    if (sums_) {
      part.means.add(best, x, weight, doubtful ? weight : 0.0);
    }
    const double distance = std::sqrt(smallest);
    part.loss.add(weight * distance);
    // sqrt(D + e) - sqrt(D), and the reach of whichever doubtful centroid is taken
    part.loss_rounding.add(weight * (std::sqrt(farthest + error) - distance));
    part.objective.add(weight * smallest);
    part.choice.add(weight * (farthest - smallest));
    part.weight.add(weight);
    part.doubt.add(doubtful ? weight : 0.0);
    part.objective_in_doubt.add(doubtful ? weight * smallest : 0.0);
  }

  /// FCM: a point weighs u^m in every cluster, within what the range of u allows.
  void add_fuzzy(std::size_t row, std::span<const double> squared, Scratch& s,
                 Partial<T>& part) const {
    constexpr double u = unit_roundoff<T>;
    const double m = problem_.fuzzifier;
    const double powers = power_rounding(m, u);
    constexpr double kLost = smallest_normal<T>;
    s.ranges.compute(squared, s.error, m, u);
    if (sums_) {
      s.weighed.next(row, add_to(part));
    }
    const auto label = static_cast<std::size_t>(view_.labels[row]);
    for (std::size_t j = 0; j < problem_.k; ++j) {
      const double weight = power(s.ranges.value[j], m);
      const double doubt =
          std::max(power(s.ranges.high[j], m) - weight, weight - power(s.ranges.low[j], m)) +
          powers * weight + kLost;
      if (sums_) {
        s.weighed.set(j, weight, doubt);
      }
      part.loss.add(weight * squared[j]);
      part.loss_rounding.add(weight * s.error[j] + doubt * squared[j]);
      part.choice.add(doubt * squared[j]);
      part.weight.add(weight);
      part.doubt.add(std::min(doubt, 1.0));
      if (j != label && s.ranges.high[j] >= s.ranges.low[label]) {
        view_.doubtful[row] = 1;
      }
    }
  }

  /// What adds the rows that are on their way.
  auto add_to(Partial<T>& part) const {
    return [&](std::size_t j, std::size_t row, double weight, double doubt) {
      part.means.add(j, problem_.points.data() + row * problem_.d, weight, doubt);
    };
  }

private:
  const Problem<T>& problem_;
  bool sums_;
  PassView& view_;
};

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
PassView view_pass(const Declaration& declared, const Problem<T>& problem,
                   std::span<const T> entering, std::span<const T> produced) {
  const DistanceTable<T> table(declared, problem, entering);
  const Origin origin = origin_of(declared, problem);
  const bool sums = !produced.empty();
  const bool kmeans = declared.family == Family::kmeans;
  PassView view;
  view.labels.resize(problem.n);
  view.doubtful.resize(problem.n);
  const Adder<T> adder(problem, sums, view);
  const Partial<T> total = combine_rows(
      problem.n, sums ? 4 * problem.k * (problem.d + 1) : problem.k,
      (kmeans || !sums ? 1.0 : 6.0) * table.operations_per_row(),
      Partial<T>(produced, problem.k, problem.d, origin),
      Scratch{table.scratch(), std::vector<double>(problem.k), MembershipRanges(problem.k),
              WeighedRows(sums && !kmeans ? problem.k : 0)},
      [&](RowChunk rows, Partial<T>& part, Scratch& s) {
        const auto every = [](std::size_t row) { return row; };
        table.for_each_row(rows.begin, rows.end, every, s.distances,
                           [&](std::size_t row, std::span<const double> squared) {
                             view.labels[row] = static_cast<std::int32_t>(nearest(squared));
                             table.errors(row, squared, s.error);
                             if (kmeans) {
                               adder.add_hard(row, squared, s, part);
                             } else {
                               adder.add_fuzzy(row, squared, s, part);
                             }
                           });
        s.weighed.release(adder.add_to(part));
      });
  constexpr double u = unit_roundoff<T>;
  const double n = static_cast<double>(problem.n);
  view.loss = total.loss.value();
  view.loss_rounding = total.loss_rounding.value() + sum_rounding(n, u) * view.loss;
  view.objective = kmeans ? total.objective.value() : total.loss.value();
  view.choice = total.choice.value();
  view.doubt = total.doubt.value() / total.weight.value();
  view.objective_in_doubt = total.objective_in_doubt.value();
  if (sums) {
    view.means = total.means.view([&](const WeightsOfCluster& weights, double mean, double spread) {
      return kmeans ? rounding_of_mean(problem, weights, mean, spread) : 2.0 * mean_rounding(n, u);
    });
    view.next_objective = view.objective - descent(view.means, entering, produced);
  }
  return view;
}

double heavy_doubt(const PassView& view) {
  constexpr double kHeavy = 8.0; // times an average point
  return view.objective_in_doubt > kHeavy * view.doubt * view.objective
             ? view.objective_in_doubt / view.objective
             : 0.0;
}

template PassView view_pass(const Declaration&, const Problem<float>&, std::span<const float>,
                            std::span<const float>);
template PassView view_pass(const Declaration&, const Problem<double>&, std::span<const double>,
                            std::span<const double>);

} // namespace clusterbench

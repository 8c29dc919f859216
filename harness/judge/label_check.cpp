#include "harness/judge/label_check.hpp"

#include "harness/judge/distance_table.hpp"
#include "harness/judge/float64_math.hpp"

namespace clusterbench {
namespace {

/// judge(row, squared distances, the nearest) -> Judgement.
template <typename T, typename Judge, typename Describe>
PointFindings compare_labels(const DistanceTable<T>& table, const PointSelection& points,
                             const Judge& judge, const Describe& describe) {
  using Scratch = typename DistanceTable<T>::Scratch;
  return find_points(
      points, table.operations_per_row(), table.scratch(),
      [&](std::size_t begin, std::size_t end, Scratch& scratch, const auto& keep) {
        const auto row_at = [&](std::size_t i) { return points[i]; };
        table.for_each_row(begin, end, row_at, scratch,
                           [&](std::size_t row, std::span<const double> squared) {
                             keep(row, judge(row, squared, nearest(squared)));
                           });
      },
      [&](std::size_t row, Scratch& scratch) {
        return describe(row, table.measure(row, scratch));
      });
}

} // namespace

template <typename T>
PointFindings check_labels(const Declaration& declared, const Problem<T>& problem,
                           std::span<const T> centroids, std::span<const std::int32_t> labels,
                           const PointSelection& points) {
  const DistanceTable<T> table(declared, problem, centroids);
  const auto rounding_of = [&](std::size_t row, std::span<const double> squared, std::size_t got,
                               std::size_t best) {
    return table.error(row, got, squared[got]) + table.error(row, best, squared[best]);
  };
  const auto judge = [&](std::size_t row, std::span<const double> squared, std::size_t best) {
    const auto got = static_cast<std::size_t>(labels[row]);
    if (got == best) {
      return Judgement::right;
    }
    const double rounding = rounding_of(row, squared, got, best);
    // Without rounding a tie is a tie, and goes to the lowest index.
    return rounding > 0.0 && squared[got] - squared[best] <= rounding ? Judgement::off
                                                                      : Judgement::wrong;
  };
  return compare_labels(
      table, points, judge, [&](std::size_t row, std::span<const double> squared) {
        const std::size_t best = nearest(squared);
        const auto got = static_cast<std::size_t>(labels[row]);
        return fmt::format(
            "label {} at squared distance {:.9g}, expected {} at {:.9g} (rounding may "
            "hide {:.2g})",
            got, squared[got], best, squared[best], rounding_of(row, squared, got, best));
      });
}

template <typename T>
std::size_t count_other_labels(const Problem<T>& problem, std::span<const T> centroids,
                               std::span<const std::int32_t> labels, const PointSelection& points) {
  const DistanceTable<T> table(Meta{}, problem, centroids);
  const auto judge = [&](std::size_t row, std::span<const double> /*squared*/, std::size_t best) {
    return static_cast<std::size_t>(labels[row]) == best ? Judgement::right : Judgement::off;
  };
  return compare_labels(table, points, judge,
                        [](std::size_t, std::span<const double>) { return std::string(); })
      .off;
}

template PointFindings check_labels(const Declaration&, const Problem<float>&,
                                    std::span<const float>, std::span<const std::int32_t>,
                                    const PointSelection&);
template PointFindings check_labels(const Declaration&, const Problem<double>&,
                                    std::span<const double>, std::span<const std::int32_t>,
                                    const PointSelection&);
template std::size_t count_other_labels(const Problem<float>&, std::span<const float>,
                                        std::span<const std::int32_t>, const PointSelection&);
template std::size_t count_other_labels(const Problem<double>&, std::span<const double>,
                                        std::span<const std::int32_t>, const PointSelection&);

} // namespace clusterbench

#include "harness/judge/point_checks.hpp"

#include "harness/judge/distance_table.hpp"
#include "harness/judge/float64_math.hpp"
#include "harness/judge/row_chunks.hpp"

#include <fmt/format.h>

#include <random>

namespace clusterbench {
namespace {

enum class Judgement { right, off, wrong };

/// Working memory of one thread.
struct Scratch {
  explicit Scratch(std::size_t k) : squared(k), error(k), ranges(k) {}
  std::vector<double> squared, error; ///< [k]
  MembershipRanges ranges;
};

/// Judges the selected points with judge(row, scratch), and describes the first wrong one with
/// describe(row, scratch), which sees the scratch as judge left it.
template <typename Judge, typename Describe>
PointFindings check_points(const PointSelection& points, std::size_t k, const Judge& judge,
                           const Describe& describe) {
  struct Count {
    std::size_t wrong = 0;
    std::size_t first_wrong = 0;
    std::size_t off = 0;
  };
  const auto chunks = row_chunks(points.size(), k);
  std::vector<Count> counts(chunks.size());
  std::vector<Scratch> scratch(chunks.size(), Scratch(k));
  for_each_chunk(chunks, [&](std::size_t index, RowChunk chunk) {
    Count& count = counts[index];
    for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
      const Judgement judgement = judge(points[i], scratch[index]);
      count.off += judgement == Judgement::off ? 1 : 0;
      if (judgement == Judgement::wrong && count.wrong++ == 0) {
        count.first_wrong = points[i];
      }
    }
  });
  PointFindings findings;
  std::size_t wrong = 0;
  std::optional<std::size_t> first;
  for (const Count& count : counts) {
    findings.off += count.off;
    wrong += count.wrong;
    if (count.wrong > 0 && !first) {
      first = count.first_wrong;
    }
  }
  if (first) {
    judge(*first, scratch[0]);
    findings.offence = fmt::format("point {}: {}; {} of {} points", *first,
                                   describe(*first, scratch[0]), wrong, points.size());
  }
  return findings;
}

std::size_t largest_of(std::span<const double> values) {
  std::size_t best = 0;
  for (std::size_t j = 1; j < values.size(); ++j) {
    best = values[j] > values[best] ? j : best;
  }
  return best;
}

} // namespace

PointSelection PointSelection::all(std::size_t n) {
  PointSelection selection;
  selection.size_ = n;
  return selection;
}

PointSelection PointSelection::sample(std::size_t n, std::size_t count, std::uint64_t seed) {
  PointSelection selection = all(n);
  if (count < n) {
    std::mt19937_64 random(seed);
    selection.size_ = count;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = n / count * i + std::min(i, n % count);
      const std::size_t length = n / count + (i < n % count ? 1 : 0);
      selection.sampled_.push_back(begin + random() % length);
    }
  }
  return selection;
}

template <typename T>
PointFindings check_labels(const Declaration& meta, const Problem<T>& problem,
                           std::span<const T> centroids, std::span<const std::int32_t> labels,
                           const PointSelection& points) {
  const DistanceTable<T> table(meta, problem, centroids);
  const auto judge = [&](std::size_t row, Scratch& s) {
    table.measure(row, s.squared, s.error);
    const std::size_t best = nearest(s.squared);
    const auto got = static_cast<std::size_t>(labels[row]);
    if (got == best) {
      return Judgement::right;
    }
    const double rounding = s.error[got] + s.error[best];
    // Without rounding a tie is a tie, and goes to the lowest index.
    return rounding > 0.0 && s.squared[got] - s.squared[best] <= rounding ? Judgement::off
                                                                          : Judgement::wrong;
  };
  return check_points(points, problem.k, judge, [&](std::size_t row, const Scratch& s) {
    const std::size_t best = nearest(s.squared);
    const auto got = static_cast<std::size_t>(labels[row]);
    return fmt::format("label {} at squared distance {:.9g}, expected {} at {:.9g} (rounding may "
                       "hide {:.2g})",
                       got, s.squared[got], best, s.squared[best], s.error[got] + s.error[best]);
  });
}

template <typename T>
PointFindings check_memberships(const Declaration& meta, const Problem<T>& problem,
                                std::span<const T> centroids, std::span<const T> memberships,
                                const PointSelection& points) {
  constexpr double u = unit_roundoff<T>;
  const DistanceTable<T> table(meta, problem, centroids);
  const auto first_wrong = [&](std::size_t row, const Scratch& s) {
    for (std::size_t j = 0; j < problem.k; ++j) {
      const double got = static_cast<double>(memberships[row * problem.k + j]);
      if (!(got >= s.ranges.low[j] - u && got <= s.ranges.high[j] + u)) {
        return j;
      }
    }
    return problem.k;
  };
  const auto judge = [&](std::size_t row, Scratch& s) {
    table.measure(row, s.squared, s.error);
    s.ranges.compute(s.squared, s.error, problem.fuzzifier, u);
    return first_wrong(row, s) < problem.k ? Judgement::wrong : Judgement::right;
  };
  return check_points(points, problem.k, judge, [&](std::size_t row, const Scratch& s) {
    const std::size_t j = first_wrong(row, s);
    return fmt::format("cluster {}: membership {:.9g}, expected {:.9g} (allowed {:.9g} .. {:.9g})",
                       j, static_cast<double>(memberships[row * problem.k + j]), s.ranges.value[j],
                       s.ranges.low[j] - u, s.ranges.high[j] + u);
  });
}

template <typename T>
PointFindings check_fuzzy_labels(const Declaration& meta, const Problem<T>& problem,
                                 std::span<const T> centroids, std::span<const T> memberships,
                                 std::span<const std::int32_t> labels,
                                 const PointSelection& points) {
  constexpr double u = unit_roundoff<T>;
  std::optional<DistanceTable<T>> table;
  if (!centroids.empty()) {
    table.emplace(meta, problem, centroids);
  }
  const auto judge = [&](std::size_t row, Scratch& s) {
    for (std::size_t j = 0; j < problem.k; ++j) {
      s.ranges.value[j] = static_cast<double>(memberships[row * problem.k + j]);
    }
    const std::size_t best = largest_of(s.ranges.value);
    const auto got = static_cast<std::size_t>(labels[row]);
    if (got == best) {
      return Judgement::right;
    }
    if (!table) {
      return s.ranges.value[got] >= s.ranges.value[best] * (1.0 - kExtraOperations * u)
                 ? Judgement::off
                 : Judgement::wrong;
    }
    table->measure(row, s.squared, s.error);
    const bool exact_tie =
        s.error[got] + s.error[best] == 0.0 && !(s.squared[got] < s.squared[best]);
    s.ranges.compute(s.squared, s.error, problem.fuzzifier, u);
    const double largest_low = s.ranges.low[largest_of(s.ranges.low)];
    return !exact_tie && s.ranges.high[got] >= largest_low ? Judgement::off : Judgement::wrong;
  };
  return check_points(points, problem.k, judge, [&](std::size_t row, const Scratch& /*s*/) {
    const auto row_of = memberships.subspan(row * problem.k, problem.k);
    const std::size_t best = largest_of(to_float64(row_of));
    const auto got = static_cast<std::size_t>(labels[row]);
    return fmt::format("label {} of membership {:.9g}, expected {} of {:.9g}", got,
                       static_cast<double>(row_of[got]), best, static_cast<double>(row_of[best]));
  });
}

template <typename T>
std::optional<std::string>
check_descent(const Declaration& meta, const Problem<T>& problem, std::span<const T> before,
              std::span<const T> centroids, std::span<const T> memberships,
              std::span<const std::int32_t> labels, const PointSelection& points) {
  const DistanceTable<T> first(meta, problem, before);
  const DistanceTable<T> last(meta, problem, centroids);
  std::vector<double> at_first(points.size());
  std::vector<double> at_last(points.size());
  const auto chunks = row_chunks(points.size(), problem.k);
  for_each_chunk(chunks, [&](std::size_t /*index*/, RowChunk chunk) {
    Scratch s(problem.k);
    const auto weighted = [&](const auto& membership) {
      double sum = 0.0;
      for (std::size_t j = 0; j < problem.k; ++j) {
        sum += power(membership(j), problem.fuzzifier) * s.squared[j];
      }
      return sum;
    };
    for (std::size_t i = chunk.begin; i < chunk.end; ++i) {
      const std::size_t row = points[i];
      first.measure(row, s.squared, s.error);
      if (meta.family == Family::kmeans) {
        at_first[i] = s.squared[nearest(s.squared)];
        last.measure(row, s.squared, s.error);
        at_last[i] = s.squared[static_cast<std::size_t>(labels[row])];
      } else {
        fuzzy_memberships(s.squared, problem.fuzzifier, s.ranges.value);
        at_first[i] = weighted([&](std::size_t j) { return s.ranges.value[j]; });
        last.measure(row, s.squared, s.error);
        at_last[i] = weighted(
            [&](std::size_t j) { return static_cast<double>(memberships[row * problem.k + j]); });
      }
    }
  });
  const double count = static_cast<double>(points.size());
  CompensatedSum of_first, of_last, of_squares;
  for (std::size_t i = 0; i < points.size(); ++i) {
    of_first.add(at_first[i]);
    of_last.add(at_last[i]);
    of_squares.add((at_last[i] - at_first[i]) * (at_last[i] - at_first[i]));
  }
  const double rise = of_last.value() - of_first.value();
  const double variance = std::max(of_squares.value() - rise * rise / count, 0.0);
  const double allowed = objective_drift<T>(meta.arithmetic) * of_first.value() +
                         (points.is_sample() ? 8.0 * std::sqrt(variance) : 0.0);
  return rise <= allowed ? std::nullopt
                         : std::optional(fmt::format(
                               "objective of {} points: got {:.9g}, an earlier state's is "
                               "{:.9g} (allowed +{:.2g})",
                               points.size(), of_last.value(), of_first.value(), allowed));
}

template <typename T>
PointFindings check_row_sums(const Problem<T>& problem, std::span<const T> memberships) {
  const double rounding =
      row_sum_rounding(problem.k, 1.0 / (problem.fuzzifier - 1.0), unit_roundoff<T>);
  const auto sum_of = [&](std::size_t row) {
    double sum = 0.0;
    for (std::size_t j = 0; j < problem.k; ++j) {
      sum += static_cast<double>(memberships[row * problem.k + j]);
    }
    return sum;
  };
  const auto judge = [&](std::size_t row, Scratch& /*s*/) {
    bool in_range = true;
    for (std::size_t j = 0; j < problem.k; ++j) {
      const double membership = static_cast<double>(memberships[row * problem.k + j]);
      in_range = in_range && membership >= 0.0 && membership <= 1.0 + rounding;
    }
    return in_range && std::abs(sum_of(row) - 1.0) <= rounding ? Judgement::right
                                                               : Judgement::wrong;
  };
  return check_points(PointSelection::all(problem.n), 1, judge,
                      [&](std::size_t row, const Scratch& /*s*/) {
                        return fmt::format("memberships sum to {:.9g} (allowed 1 +- {:.2g}), or "
                                           "one is outside [0, 1]",
                                           sum_of(row), rounding);
                      });
}

template PointFindings check_labels(const Declaration&, const Problem<float>&,
                                    std::span<const float>, std::span<const std::int32_t>,
                                    const PointSelection&);
template PointFindings check_labels(const Declaration&, const Problem<double>&,
                                    std::span<const double>, std::span<const std::int32_t>,
                                    const PointSelection&);
template PointFindings check_memberships(const Declaration&, const Problem<float>&,
                                         std::span<const float>, std::span<const float>,
                                         const PointSelection&);
template PointFindings check_memberships(const Declaration&, const Problem<double>&,
                                         std::span<const double>, std::span<const double>,
                                         const PointSelection&);
template PointFindings check_fuzzy_labels(const Declaration&, const Problem<float>&,
                                          std::span<const float>, std::span<const float>,
                                          std::span<const std::int32_t>, const PointSelection&);
template PointFindings check_fuzzy_labels(const Declaration&, const Problem<double>&,
                                          std::span<const double>, std::span<const double>,
                                          std::span<const std::int32_t>, const PointSelection&);
template std::optional<std::string> check_descent(const Declaration&, const Problem<float>&,
                                                  std::span<const float>, std::span<const float>,
                                                  std::span<const float>,
                                                  std::span<const std::int32_t>,
                                                  const PointSelection&);
template std::optional<std::string> check_descent(const Declaration&, const Problem<double>&,
                                                  std::span<const double>, std::span<const double>,
                                                  std::span<const double>,
                                                  std::span<const std::int32_t>,
                                                  const PointSelection&);
template PointFindings check_row_sums(const Problem<float>&, std::span<const float>);
template PointFindings check_row_sums(const Problem<double>&, std::span<const double>);

} // namespace clusterbench

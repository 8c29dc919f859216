#include "harness/judge/qualification.hpp"

#include <cmath>
#include <random>
#include <string_view>
#include <utility>

namespace clusterbench {
namespace {

/// Uniform numbers that are the same with every standard library.
class Random {
public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  /// In [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  std::size_t index(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }

private:
  std::mt19937_64 engine_;
};

constexpr StopRule iterations(std::size_t count) {
  return {StopRule::Kind::iterations, 0.0, count};
}

template <typename T>
OwnedProblem<T> empty_problem(std::string_view what, std::size_t n, std::size_t d, std::size_t k,
                              StopRule stop) {
  OwnedProblem<T> problem;
  problem.name = std::string(what) + " n=" + std::to_string(n) + " d=" + std::to_string(d) +
                 " k=" + std::to_string(k);
  problem.n = n;
  problem.d = d;
  problem.k = k;
  problem.points.resize(n * d);
  problem.stop = stop;
  return problem;
}

/// Data rows that were moved a little, so that even a cluster of one point has to move.
template <typename T, typename RowOf>
std::vector<T> moved_rows(const OwnedProblem<T>& problem, double scale, Random& random,
                          const RowOf& row_of) {
  const std::size_t d = problem.d;
  std::vector<T> centroids(problem.k * d);
  for (std::size_t j = 0; j < problem.k; ++j) {
    for (std::size_t f = 0; f < d; ++f) {
      centroids[j * d + f] = static_cast<T>(static_cast<double>(problem.points[row_of(j) * d + f]) +
                                            scale * random.uniform(-0.4, 0.4));
    }
  }
  return centroids;
}

/// min(k, 7) groups, in which no point lies near the middle: whoever loses a point moves a mean.
template <typename T>
OwnedProblem<T> groups(std::string_view what, std::size_t n, std::size_t d, std::size_t k,
                       StopRule stop, double scale = 1.0, double offset = 0.0) {
  OwnedProblem<T> problem = empty_problem<T>(what, n, d, k, stop);
  Random random(n * 1000003 + d * 1009 + k);
  const std::size_t count = k < 7 ? k : 7;
  std::vector<double> middles(count * d);
  for (double& middle : middles) {
    middle = random.uniform(-5.0, 5.0);
  }
  std::vector<std::size_t> groups(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t group = groups[i] = random.index(count);
    for (std::size_t f = 0; f < d; ++f) {
      const double away = random.uniform(1.0, 3.0) * (random.uniform() < 0.5 ? -1.0 : 1.0);
      problem.points[i * d + f] = static_cast<T>(scale * (middles[group * d + f] + away) + offset);
    }
  }
  const auto first = [&](std::size_t j) { return j * n / k; };
  // Each cluster begins in another group than at first, if there are others.
  const auto second = [&](std::size_t j) {
    std::size_t row = (first(j) + n / (2 * k) + 1) % n;
    for (std::size_t step = 0; step < n && n >= 2 * k && groups[row] == groups[first(j)]; ++step) {
      row = (row + 1) % n;
    }
    return row;
  };
  problem.centroids = moved_rows(problem, scale, random, first);
  problem.second = moved_rows(problem, scale, random, second);
  return problem;
}

/// Small integers, on which all arithmetic is exact: ties are ties, and go to the lowest index.
/// The centroids hold pairs that are equal and pairs that mirror each other.
template <typename T>
OwnedProblem<T> ties(std::size_t n, std::size_t d, std::size_t k) {
  OwnedProblem<T> problem = empty_problem<T>("exact ties", n, d, k, iterations(1));
  Random random(n + d + k);
  for (T& value : problem.points) {
    value = static_cast<T>(static_cast<int>(random.index(5)) - 2);
  }
  const auto start = [&](std::size_t shift) {
    std::vector<T> centroids(k * d);
    for (std::size_t j = 0; j < k; ++j) {
      for (std::size_t f = 0; f < d; ++f) {
        const T before = j == 0 ? T(1) : centroids[(j - 1) * d + f];
        centroids[j * d + f] = j % 3 == 1   ? -before
                               : j % 3 == 2 ? before
                                            : static_cast<T>(1 + (j + f + shift) % 3);
      }
    }
    return centroids;
  };
  problem.centroids = start(0);
  problem.second = start(1);
  return problem;
}

/// Every point occurs four times.
template <typename T>
OwnedProblem<T> duplicates(std::size_t n, std::size_t d, std::size_t k) {
  OwnedProblem<T> problem = groups<T>("duplicated points", n, d, k, iterations(3));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t f = 0; f < d; ++f) {
      problem.points[i * d + f] = problem.points[i / 4 * 4 * d + f];
    }
  }
  return problem;
}

template <typename T>
OwnedProblem<T> constant_feature(std::size_t n, std::size_t d, std::size_t k) {
  OwnedProblem<T> problem = groups<T>("constant feature", n, d, k, iterations(3));
  for (std::size_t i = 0; i < n; ++i) {
    problem.points[i * d + d / 2] = T(0.1);
  }
  return problem;
}

/// The first and the last centroid are so far away that no point is theirs.
template <typename T>
OwnedProblem<T> empty_clusters(std::size_t n, std::size_t d, std::size_t k) {
  OwnedProblem<T> problem = groups<T>("empty cluster", n, d, k, iterations(4));
  for (std::size_t f = 0; f < d; ++f) {
    problem.centroids[f] = static_cast<T>(100.0 + static_cast<double>(f));
    problem.centroids[(k - 1) * d + f] = static_cast<T>(-90.0 - static_cast<double>(f));
    problem.second[f] = static_cast<T>(-80.0 - static_cast<double>(f));
    problem.second[(k - 1) * d + f] = static_cast<T>(110.0 + static_cast<double>(f));
  }
  return problem;
}

/// Weights that span a factor of a hundred, and none for every seventh point.
template <typename T>
OwnedProblem<T> weighted(OwnedProblem<T> problem) {
  Random random(problem.n + problem.d + problem.k);
  problem.name += ", weighted";
  for (std::size_t i = 0; i < problem.n; ++i) {
    problem.weights.push_back(
        i % 7 == 3 ? T(0) : static_cast<T>(std::pow(10.0, random.uniform(-1.0, 1.0))));
  }
  return problem;
}

/// The points of a cluster have no weight: their labels are its number, and its centroid stays.
template <typename T>
OwnedProblem<T> cluster_without_weight(std::size_t n, std::size_t d, std::size_t k) {
  OwnedProblem<T> problem = weighted(groups<T>("cluster without weight", n, d, k, iterations(3)));
  for (std::size_t i = 0; i < n; i += 2) { // another place for each of them
    for (std::size_t f = 0; f < d; ++f) {
      problem.points[i * d + f] += T(50);
    }
    problem.weights[i] = T(0);
  }
  for (std::size_t f = 0; f < d; ++f) {
    problem.centroids[f] = problem.points[f];
    problem.second[(k - 1) * d + f] = problem.points[f] + T(1);
  }
  return problem;
}

/// The initial centres are data rows, so that distances of zero occur.
template <typename T>
OwnedProblem<T> centres_on_points(std::size_t n, std::size_t d, std::size_t k) {
  OwnedProblem<T> problem = groups<T>("points on centres", n, d, k, iterations(2));
  for (std::size_t j = 0; j < k; ++j) {
    for (std::size_t f = 0; f < d; ++f) {
      problem.centroids[j * d + f] = problem.points[j * n / k * d + f];
      problem.second[j * d + f] = problem.points[(j * n / k + 1) % n * d + f];
    }
  }
  return problem;
}

template <typename T>
OwnedProblem<T> with_fuzzifier(OwnedProblem<T> problem, double fuzzifier) {
  problem.fuzzifier = fuzzifier;
  problem.name += " m=" + std::to_string(fuzzifier).substr(0, 3);
  return problem;
}

/// Starts from random memberships instead, of which one in each row stands out.
template <typename T>
OwnedProblem<T> from_memberships(OwnedProblem<T> problem) {
  Random random(problem.n + problem.k);
  problem.name += " from memberships";
  problem.centroids.clear();
  const auto start = [&] {
    std::vector<T> memberships;
    std::vector<double> row(problem.k);
    for (std::size_t i = 0; i < problem.n; ++i) {
      double sum = 0.0;
      for (double& value : row) {
        value = std::pow(random.uniform(0.05, 1.0), 4.0);
        sum += value;
      }
      for (const double value : row) {
        memberships.push_back(static_cast<T>(value / sum));
      }
    }
    return memberships;
  };
  problem.memberships = start();
  problem.second = start();
  return problem;
}

template <typename T>
std::vector<OwnedProblem<T>> kmeans_problems() {
  using Kind = StopRule::Kind;
  std::vector<OwnedProblem<T>> list;
  list.push_back(groups<T>("one point", 1, 1, 1, iterations(2)));
  list.push_back(groups<T>("one point", 1, 3, 1, iterations(1)));
  list.push_back(groups<T>("as many clusters as points", 5, 2, 5, iterations(2)));
  list.push_back(groups<T>("as many clusters as points", 16, 9, 16, iterations(2)));
  list.push_back(groups<T>("one point more than clusters", 6, 2, 5, iterations(2)));
  list.push_back(groups<T>("one point more than clusters", 17, 3, 16, iterations(2)));
  list.push_back(groups<T>("one cluster", 33, 37, 1, iterations(2)));
  list.push_back(groups<T>("short of a warp", 31, 9, 2, iterations(3)));
  list.push_back(groups<T>("beyond a warp", 33, 37, 5, iterations(3)));
  list.push_back(groups<T>("one feature", 65, 1, 2, iterations(3)));
  list.push_back(groups<T>("short of a block", 255, 3, 16, iterations(4)));
  list.push_back(groups<T>("one block", 256, 2, 5, iterations(4)));
  list.push_back(groups<T>("beyond a block", 257, 37, 2, iterations(3)));
  list.push_back(groups<T>("wide", 511, 100, 5, iterations(3)));
  list.push_back(groups<T>("wide", 513, 129, 5, iterations(3)));
  list.push_back(groups<T>("many clusters", 1023, 9, 31, iterations(4)));
  list.push_back(groups<T>("beyond four blocks", 1025, 2, 16, iterations(4)));
  list.push_back(groups<T>("beyond four blocks", 1025, 100, 2, iterations(3)));
  list.push_back(groups<T>("more clusters than a block", 1025, 3, 257, iterations(2)));
  list.push_back(duplicates<T>(64, 2, 3));
  list.push_back(ties<T>(33, 2, 5));
  list.push_back(ties<T>(300, 9, 16));
  list.push_back(empty_clusters<T>(100, 3, 5));
  list.push_back(groups<T>("offset 1e3", 33, 3, 2, iterations(3), 1.0, 1e3));
  list.push_back(groups<T>("offset 1e4", 60, 9, 5, iterations(2), 1.0, 1e4));
  list.push_back(groups<T>("tiny scale", 100, 9, 5, iterations(3), 1e-6));
  list.push_back(groups<T>("huge scale", 100, 9, 5, iterations(3), 1e6));
  list.push_back(constant_feature<T>(129, 3, 5));
  list.push_back(groups<T>("fixed point before the end", 60, 2, 3, iterations(60)));
  list.push_back(groups<T>("stop on labels", 500, 2, 5, {Kind::labels, 0.0, 100}));
  list.push_back(groups<T>("stop on labels", 700, 9, 16, {Kind::labels, 0.0, 100}));
  list.push_back(groups<T>("stop on loss", 300, 9, 5, {Kind::loss, 0.5, 100}));
  list.push_back(groups<T>("stop on loss", 900, 3, 16, {Kind::loss, 0.5, 100}));
  list.push_back(groups<T>("stop on shift", 400, 3, 5, {Kind::shift, 1e-3, 100}));
  // For variants that take weights; others refuse.
  list.push_back(weighted(groups<T>("one point", 1, 3, 1, iterations(1))));
  list.push_back(weighted(groups<T>("beyond a warp", 33, 37, 5, iterations(3))));
  list.push_back(weighted(groups<T>("one feature", 65, 1, 2, iterations(3))));
  list.push_back(weighted(groups<T>("beyond a block", 257, 37, 2, iterations(3))));
  list.push_back(weighted(groups<T>("many clusters", 1023, 9, 31, iterations(4))));
  list.push_back(weighted(groups<T>("more clusters than a block", 1025, 3, 257, iterations(2))));
  list.push_back(weighted(ties<T>(300, 9, 16)));
  list.push_back(weighted(empty_clusters<T>(100, 3, 5)));
  list.push_back(cluster_without_weight<T>(120, 3, 4));
  list.push_back(cluster_without_weight<T>(120, 37, 4));
  list.push_back(weighted(groups<T>("stop on labels", 700, 9, 16, {Kind::labels, 0.0, 100})));
  list.push_back(weighted(groups<T>("stop on loss", 900, 3, 16, {Kind::loss, 0.5, 100})));
  list.push_back(weighted(groups<T>("stop on loss", 300, 37, 5, {Kind::loss, 0.5, 100})));
  list.push_back(weighted(groups<T>("stop on shift", 400, 3, 5, {Kind::shift, 1e-3, 100})));
  return list;
}

template <typename T>
std::vector<OwnedProblem<T>> fcm_problems() {
  using Kind = StopRule::Kind;
  std::vector<OwnedProblem<T>> list;
  list.push_back(groups<T>("one point", 1, 1, 1, iterations(2)));
  list.push_back(groups<T>("one point", 1, 3, 2, iterations(1)));
  list.push_back(groups<T>("as many clusters as points", 5, 2, 5, iterations(1)));
  list.push_back(groups<T>("one point more than clusters", 6, 2, 5, iterations(2)));
  list.push_back(groups<T>("one cluster", 33, 37, 1, iterations(2)));
  list.push_back(groups<T>("short of a warp", 31, 9, 2, iterations(3)));
  list.push_back(with_fuzzifier(groups<T>("beyond a warp", 33, 37, 5, iterations(2)), 1.5));
  list.push_back(groups<T>("one feature", 65, 1, 2, iterations(3)));
  list.push_back(with_fuzzifier(groups<T>("short of a block", 255, 3, 5, iterations(3)), 3.0));
  list.push_back(groups<T>("one block", 256, 2, 5, iterations(4)));
  list.push_back(groups<T>("beyond a block", 257, 37, 2, iterations(3)));
  list.push_back(with_fuzzifier(groups<T>("wide", 511, 100, 5, iterations(2)), 1.5));
  list.push_back(groups<T>("wide", 513, 129, 2, iterations(2)));
  list.push_back(groups<T>("many clusters", 1023, 9, 31, iterations(2)));
  list.push_back(with_fuzzifier(groups<T>("beyond four blocks", 1025, 3, 16, iterations(3)), 1.5));
  list.push_back(groups<T>("more clusters than a block", 600, 3, 257, iterations(1)));
  list.push_back(duplicates<T>(64, 2, 3));
  list.push_back(ties<T>(33, 2, 5));
  list.push_back(centres_on_points<T>(40, 3, 5));
  list.push_back(with_fuzzifier(centres_on_points<T>(40, 3, 5), 1.5));
  list.push_back(groups<T>("offset 1e3", 33, 3, 2, iterations(2), 1.0, 1e3));
  list.push_back(groups<T>("tiny scale", 100, 9, 5, iterations(2), 1e-6));
  list.push_back(with_fuzzifier(groups<T>("huge scale", 100, 9, 5, iterations(2), 1e6), 1.5));
  list.push_back(constant_feature<T>(129, 3, 5));
  list.push_back(from_memberships(groups<T>("start", 33, 3, 2, iterations(1))));
  list.push_back(from_memberships(groups<T>("start", 257, 9, 5, iterations(3))));
  list.push_back(
      with_fuzzifier(from_memberships(groups<T>("start", 500, 2, 5, iterations(4))), 1.5));
  list.push_back(
      with_fuzzifier(from_memberships(groups<T>("start", 129, 37, 3, iterations(2))), 3.0));
  list.push_back(groups<T>("stop on loss", 300, 3, 5, {Kind::loss, 0.5, 100}));
  list.push_back(from_memberships(groups<T>("stop on loss", 300, 3, 5, {Kind::loss, 0.5, 100})));
  list.push_back(groups<T>("stop on shift", 400, 2, 3, {Kind::shift, 1e-3, 100}));
  return list;
}

} // namespace

template <typename T>
std::vector<OwnedProblem<T>> qualification_problems(Family family) {
  return family == Family::kmeans ? kmeans_problems<T>() : fcm_problems<T>();
}

template std::vector<OwnedProblem<float>> qualification_problems(Family);
template std::vector<OwnedProblem<double>> qualification_problems(Family);

} // namespace clusterbench

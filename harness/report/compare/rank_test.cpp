#include "harness/report/compare/rank_test.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace clusterbench {
namespace {

struct Ranks {
  double u = 0.0;    ///< U of the first set: how many pairs it wins, ties counting one half
  double ties = 0.0; ///< sum of t^3 - t over groups of t equal samples
};

Ranks rank(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> all; // value, whether it is of the first set
  for (const double x : a) {
    all.emplace_back(x, true);
  }
  for (const double x : b) {
    all.emplace_back(x, false);
  }
  std::ranges::sort(all);
  Ranks ranks;
  double rank_sum = 0.0;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].first == all[begin].first) {
      ++end;
    }
    const double mean_rank = static_cast<double>(begin + end + 1) / 2.0;
    const auto tied = static_cast<double>(end - begin);
    ranks.ties += tied * tied * tied - tied;
    for (std::size_t i = begin; i < end; ++i) {
      rank_sum += all[i].second ? mean_rank : 0.0;
    }
  }
  const auto count = static_cast<double>(a.size());
  ranks.u = rank_sum - count * (count + 1.0) / 2.0;
  return ranks;
}

// P(U >= u) for sets of n and m samples without ties. The largest of all n + m samples belongs to
// the first set with probability n / (n + m) and then wins m pairs; adding only positive terms, the
// recursion loses no digits.
double exact_upper_tail(std::size_t n, std::size_t m, std::size_t u) {
  std::vector<std::vector<double>> row(m + 1, {1.0}); // row[j][v] = P(U = v) for i and j samples
  for (std::size_t i = 1; i <= n; ++i) {
    std::vector<std::vector<double>> next(m + 1, {1.0});
    for (std::size_t j = 1; j <= m; ++j) {
      const double of_first = static_cast<double>(i) / static_cast<double>(i + j);
      next[j].assign(i * j + 1, 0.0);
      for (std::size_t v = 0; v < row[j].size(); ++v) {
        next[j][v + j] += of_first * row[j][v];
      }
      for (std::size_t v = 0; v < next[j - 1].size(); ++v) {
        next[j][v] += (1.0 - of_first) * next[j - 1][v];
      }
    }
    row = std::move(next);
  }
  const std::vector<double>& probabilities = row[m];
  return std::accumulate(probabilities.begin() + static_cast<std::ptrdiff_t>(u),
                         probabilities.end(), 0.0);
}

} // namespace

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) {
    throw std::invalid_argument("a U test of no samples");
  }
  constexpr std::size_t kExactUpTo = 8;
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  const Ranks ranks = rank(a, b);
  const double larger_u = std::max(ranks.u, n * m - ranks.u);
  if (std::min(a.size(), b.size()) <= kExactUpTo && ranks.ties == 0.0) {
    const auto [few, many] = std::minmax({a.size(), b.size()}); // copies, not references
    return std::min(1.0, 2.0 * exact_upper_tail(few, many, static_cast<std::size_t>(larger_u)));
  }
  const double all = n + m;
  const double variance = n * m / 12.0 * (all + 1.0 - ranks.ties / (all * (all - 1.0)));
  if (!(variance > 0.0)) {
    return 1.0;
  }
  const double z = (larger_u - n * m / 2.0 - 0.5) / std::sqrt(variance);
  return std::min(1.0, std::erfc(z / std::numbers::sqrt2));
}

// Of all choices of n among n + m ranks, the lowest and the highest are as far out.
double least_mann_whitney_p(std::size_t n, std::size_t m) {
  double choices = 1.0;
  for (std::size_t i = 1; i <= n; ++i) {
    choices *= static_cast<double>(m + i) / static_cast<double>(i);
  }
  return std::min(1.0, 2.0 / choices);
}

double signed_rank_p(std::span<const double> differences) {
  constexpr std::size_t kExactUpTo = 50;
  std::vector<double> above, below; // magnitudes
  for (const double difference : differences) {
    if (difference != 0.0) {
      (difference > 0.0 ? above : below).push_back(std::abs(difference));
    }
  }
  const std::size_t count = above.size() + below.size();
  if (count == 0) {
    return 1.0;
  }
  const Ranks ranks = rank(above, below);
  const auto n = static_cast<double>(count);
  const auto m = static_cast<double>(above.size());
  const double sum = ranks.u + m * (m + 1.0) / 2.0; // of the ranks of those above
  const double all = n * (n + 1.0) / 2.0;
  const double larger = std::max(sum, all - sum);
  if (count <= kExactUpTo && count == differences.size() && ranks.ties == 0.0) {
    std::vector<double> chances(static_cast<std::size_t>(all) + 1, 0.0); // of every sum
    chances[0] = 1.0;
    for (std::size_t r = 1, most = 0; r <= count; most += r++) {
      for (std::size_t s = most + r + 1; s-- > 0;) {
        chances[s] = 0.5 * (chances[s] + (s >= r ? chances[s - r] : 0.0));
      }
    }
    return std::min(1.0,
                    2.0 * std::accumulate(chances.begin() + static_cast<std::ptrdiff_t>(larger),
                                          chances.end(), 0.0));
  }
  const double variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0 - ranks.ties / 48.0;
  return variance > 0.0 ? std::min(1.0, std::erfc((larger - all / 2.0) / std::sqrt(2.0 * variance)))
                        : 1.0;
}

double least_signed_rank_p(std::size_t n) {
  return std::min(1.0, 2.0 * std::pow(0.5, static_cast<double>(n)));
}

std::vector<double> benjamini_hochberg(std::span<const double> p_values) {
  const std::size_t count = p_values.size();
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return p_values[i]; });
  std::vector<double> adjusted(count);
  double smallest = 1.0;
  for (std::size_t rank = count; rank-- > 0;) {
    const double q =
        p_values[order[rank]] * static_cast<double>(count) / static_cast<double>(rank + 1);
    smallest = std::min(smallest, q);
    adjusted[order[rank]] = smallest;
  }
  return adjusted;
}

} // namespace clusterbench

// Labels of points among many centroids: scores |c|^2 / 2 - x.c by multiply-adds alone, and what
// they cannot rule out compared by differences.
//
// A score is half the squared distance less |x|^2 / 2, the same for all centroids of a point, and
// one multiply-add per feature where a difference needs a subtraction as well; but it rounds worse.
// Of each group of centroids only the least score is kept. Then every group whose least score is
// within the bound of rounding (sieve.hpp) of the point's least is compared by differences, which
// decides. Nearly always that is one group; if nothing can be ruled out it is all of them.
#pragma once

#include "impls/simd/support/kernels.hpp"
#include "impls/simd/support/vector.hpp"

namespace clusterbench::simd {

/// Centroids whose scores make a tile with two registers of points.
template <class V>
inline constexpr std::size_t kSieveGroup = V::registers == 32 ? 8 : 4;

/// What the scores of 2 * lanes points tell.
template <class V>
struct Scores {
  typename V::Reg least[2], second[2]; ///< of all centroids
  typename V::Ints group[2];           ///< the one that has the least
};

template <class V>
[[gnu::always_inline]] inline Scores<V> no_scores() {
  const typename V::Reg infinite =
      V::broadcast(static_cast<typename V::Scalar>(__builtin_huge_val()));
  return {{infinite, infinite}, {infinite, infinite}, {}};
}

/// Takes the scores of group g for two registers of points; the least of them goes into minima,
/// [groups, 2 * lanes]. The last bits of a score are replaced by its number in the group, so that a
/// minimum knows where it is from.
template <class V>
[[gnu::always_inline]] inline void take_group(typename V::Reg (&score)[kSieveGroup<V>][2],
                                              std::size_t g, typename V::Scalar* minima,
                                              Scores<V>& found) {
  constexpr std::size_t kGroup = kSieveGroup<V>;
  const typename V::Ints this_one = V::broadcast_label(g);
#pragma GCC unroll 2
  for (std::size_t b = 0; b < 2; ++b) {
#pragma GCC unroll 16
    for (std::size_t t = 0; t < kGroup; ++t) {
      score[t][b] = V::template with_last_bits<kGroup - 1>(score[t][b], t);
    }
#pragma GCC unroll 4
    for (std::size_t half = kGroup / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
      for (std::size_t t = 0; t < half; ++t) {
        found.second[b] = V::min(V::max(score[t][b], score[t + half][b]), found.second[b]);
        score[t][b] = V::min(score[t][b], score[t + half][b]);
      }
    }
    V::store(minima + (2 * g + b) * V::lanes, score[0][b]);
    found.second[b] = V::min(V::max(score[0][b], found.least[b]), found.second[b]);
    found.group[b] = V::select(V::less(score[0][b], found.least[b]), this_one, found.group[b]);
    found.least[b] = V::min(score[0][b], found.least[b]);
  }
}

/// Scores of 2 * lanes points of which `x` has the columns.
template <class V>
[[gnu::always_inline]] inline Scores<V> scores_of(const typename V::Scalar* x, std::size_t d,
                                                  const Sieve<typename V::Scalar>& sieve,
                                                  typename V::Scalar* minima) {
  using T = typename V::Scalar;
  constexpr std::size_t kGroup = kSieveGroup<V>;
  Scores<V> found = no_scores<V>();
  for (std::size_t g = 0; g < sieve.groups; ++g) {
    typename V::Reg score[kGroup][2];
#pragma GCC unroll 16
    for (std::size_t t = 0; t < kGroup; ++t) {
      score[t][0] = score[t][1] = V::broadcast(sieve.halves[g * kGroup + t]);
    }
    const T* c = sieve.panels + g * kGroup * d;
    const T* p = x;
    for (std::size_t f = 0; f < d; ++f, c += kGroup, p += V::lanes) {
      const typename V::Reg x0 = V::load(p);
      const typename V::Reg x1 = V::load(p + d * V::lanes);
#pragma GCC unroll 16
      for (std::size_t t = 0; t < kGroup; ++t) {
        const typename V::Reg value = V::broadcast(c[t]);
        score[t][0] = V::fma(x0, value, score[t][0]);
        score[t][1] = V::fma(x1, value, score[t][1]);
      }
    }
    take_group<V>(score, g, minima, found);
  }
  return found;
}

/// Squared distances, by differences, of row x to N centroids; N is a power of two up to `lanes`.
template <class V, std::size_t N>
[[gnu::always_inline]] inline void distances_to(const typename V::Scalar* x,
                                                const typename V::Scalar* const (&c)[N],
                                                std::size_t d, typename V::Scalar* distances) {
  typename V::Reg sum[N] = {};
  const auto add = [&](auto load) __attribute__((always_inline)) {
    const typename V::Reg value = load(x);
#pragma GCC unroll 8
    for (std::size_t t = 0; t < N; ++t) {
      const typename V::Reg away = value - load(c[t]);
      sum[t] = V::fma(away, away, sum[t]);
    }
  };
  std::size_t f = 0;
  for (; f + V::lanes <= d; f += V::lanes) {
    add([f](const typename V::Scalar* p) __attribute__((always_inline)) { return V::load(p + f); });
  }
  if (f < d) {
    add([ f, d ](const typename V::Scalar* p)
            __attribute__((always_inline)) { return V::load_first(p + f, d - f); });
  }
#pragma GCC unroll 4
  for (std::size_t count = N; count > 1; count /= 2) {
#pragma GCC unroll 8
    for (std::size_t t = 0; t < count / 2; ++t) {
      sum[t] = pair_sums<V>(sum[2 * t], sum[2 * t + 1]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t parts = V::lanes / N; parts > 1; parts /= 2) {
    sum[0] = pair_sums<V>(sum[0], sum[0]);
  }
  typename V::Scalar totals[V::lanes];
  V::store(totals, sum[0]);
  __builtin_memcpy(distances, totals, N * sizeof(typename V::Scalar));
}

/// The nearest centroid of a row, by differences.
template <class V>
struct Nearest {
  typename V::Scalar distance = static_cast<typename V::Scalar>(__builtin_huge_val());
  std::int32_t label = 0;
};

/// Compares row x with the group of centroids that begins with the first.
template <class V>
[[gnu::always_inline]] inline void compare_group(const typename V::Scalar* x, std::size_t first,
                                                 const typename V::Scalar* centroids, std::size_t k,
                                                 std::size_t d, Nearest<V>& nearest) {
  using T = typename V::Scalar;
  constexpr std::size_t kGroup = kSieveGroup<V>;
  constexpr std::size_t kAtOnce = kGroup < V::lanes ? kGroup : V::lanes;
  for (std::size_t j = first; j < first + kGroup && j < k; j += kAtOnce) {
    const T* c[kAtOnce];
#pragma GCC unroll 8
    for (std::size_t t = 0; t < kAtOnce; ++t) { // beyond the last: it cannot win a second time
      c[t] = centroids + (j + t < k ? j + t : k - 1) * d;
    }
    T distances[kAtOnce];
    distances_to<V, kAtOnce>(x, c, d, distances);
#pragma GCC unroll 8
    for (std::size_t t = 0; t < kAtOnce; ++t) {
      if (distances[t] < nearest.distance) {
        nearest = {distances[t], static_cast<std::int32_t>(j + t)};
      }
    }
  }
}

/// Points whose label the scores leave open: they wait for their rows, which memory is asked for,
/// and are compared by differences with the groups whose least score is not above their limit.
/// Least scores of a point are kStride apart.
template <class V, class Score, std::size_t kStride>
class Undecided {
  using T = typename V::Scalar;
  static constexpr std::size_t kGroup = kSieveGroup<V>, kPoints = 32, kGroups = 6;

public:
  Undecided(const Chunk<T>& chunk, const T* centroids, std::size_t k, std::int32_t* labels,
            T* distances)
      : chunk_(chunk), centroids_(centroids), k_(k), labels_(labels), distances_(distances) {}

  /// minima are those of the point: one in every kStride.
  void add(std::size_t i, const Score* minima, Score limit) {
    const T* x = row(i);
    for (std::size_t f = 0; f < chunk_.d; f += 64 / sizeof(T)) {
      __builtin_prefetch(x + f);
    }
    Waiting& point = waiting_[count_];
    point = {static_cast<std::uint32_t>(i), 0, {}};
    for (std::size_t first = 0; first < k_; first += kGroup, minima += kStride) {
      if (*minima > limit) { // never true for what is not a number
        continue;
      }
      if (point.groups == kGroups) { // too many to remember
        return compare_at_once(i, minima, limit, first);
      }
      point.first[point.groups++] = static_cast<std::uint32_t>(first);
    }
    if (++count_ == kPoints) {
      compare();
    }
  }

  /// Compares all that wait.
  void compare() {
    for (std::size_t p = 0; p < count_; ++p) {
      Nearest<V> nearest;
      for (std::uint32_t g = 0; g < waiting_[p].groups; ++g) {
        compare_group<V>(row(waiting_[p].row), waiting_[p].first[g], centroids_, k_, chunk_.d,
                         nearest);
      }
      answer(waiting_[p].row, nearest);
    }
    count_ = 0;
  }

private:
  struct Waiting {
    std::uint32_t row, groups;
    std::uint32_t first[kGroups]; // centroids of these
  };

  const T* row(std::size_t i) const { return chunk_.points + i * chunk_.d; }

  void answer(std::size_t i, const Nearest<V>& nearest) {
    labels_[i] = nearest.label;
    if (distances_ != nullptr) {
      distances_[i] = nearest.distance;
    }
  }

  void compare_at_once(std::size_t i, const Score* minima, Score limit, std::size_t first) {
    Nearest<V> nearest;
    for (std::uint32_t g = 0; g < kGroups; ++g) {
      compare_group<V>(row(i), waiting_[count_].first[g], centroids_, k_, chunk_.d, nearest);
    }
    for (; first < k_; first += kGroup, minima += kStride) {
      if (!(*minima > limit)) {
        compare_group<V>(row(i), first, centroids_, k_, chunk_.d, nearest);
      }
    }
    answer(i, nearest);
  }

  Chunk<T> chunk_;
  const T* centroids_;
  std::size_t k_;
  std::int32_t* labels_;
  T* distances_;
  std::size_t count_ = 0;
  Waiting waiting_[kPoints];
};

/// Labels of a chunk: scores(i) are those of 2 * lanes points from i on, whose least scores in each
/// group go to minima; limit(i, least) says for `lanes` points which scores rounding may have put
/// above the least, and above(a, b) has a bit for each lane in which a is. Rows are of E, and
/// scores of as many lanes as V has.
template <class V, class E = V, class Score, class ScoresOf, class LimitOf, class Above>
[[gnu::always_inline]] inline void
label_by_scores(const Chunk<typename E::Scalar>& chunk, const typename E::Scalar* centroids,
                std::size_t k, const Score* minima, std::int32_t* labels,
                typename E::Scalar* distances, ScoresOf scores, LimitOf limit_of, Above above) {
  using T = typename E::Scalar;
  static_assert(kSieveGroup<E> == kSieveGroup<V>);
  constexpr std::size_t kPoints = 2 * V::lanes;
  constexpr auto kGroup = static_cast<typename V::Lane>(kSieveGroup<V>);
  Undecided<E, Score, kPoints> undecided(chunk, centroids, k, labels, distances);
  for (std::size_t i = 0; i < chunk.count; i += kPoints) {
    const auto found = scores(i);
    Score limit[kPoints];
    std::uint32_t open = 0;
#pragma GCC unroll 2
    for (std::size_t b = 0; b < 2; ++b) {
      const auto limits = limit_of(i + b * V::lanes, found.least[b]);
      __builtin_memcpy(limit + b * V::lanes, &limits, sizeof limits);
      open |= (~above(found.second[b], limits) & ((1u << V::lanes) - 1u)) << b * V::lanes;
      V::store_labels(labels + i + b * V::lanes,
                      found.group[b] * kGroup +
                          (reinterpret_cast<typename V::Ints>(found.least[b]) & (kGroup - 1)));
    }
    if (chunk.count - i < kPoints) {
      open &= (1u << (chunk.count - i)) - 1u;
    }
    if (distances != nullptr) {
      for (std::size_t r = 0; r < kPoints && i + r < chunk.count; ++r) {
        if ((open >> r & 1u) == 0) {
          const T* const own[1] = {centroids + static_cast<std::size_t>(labels[i + r]) * chunk.d};
          distances_to<E, 1>(chunk.points + (i + r) * chunk.d, own, chunk.d, distances + i + r);
        }
      }
    }
    for (; open != 0; open &= open - 1) {
      const auto r = static_cast<std::size_t>(__builtin_ctz(open));
      undecided.add(i + r, minima + r, limit[r]);
    }
  }
  undecided.compare();
}

/// The same for scores that are floats: margin(i) bounds how far rounding may mislead.
template <class V, class ScoresOf, class MarginOf>
[[gnu::always_inline]] inline void
label_by_scores(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* centroids,
                std::size_t k, const typename V::Scalar* minima, std::int32_t* labels,
                typename V::Scalar* distances, ScoresOf scores, MarginOf margin) {
  label_by_scores<V>(
      chunk, centroids, k, minima, labels, distances, scores,
      [&](std::size_t i, typename V::Reg least)
          __attribute__((always_inline)) { return least + margin(i); },
      [](typename V::Reg a, typename V::Reg b)
          __attribute__((always_inline)) { return V::bits(V::less(b, a)); });
}

template <class V>
void sieve_columns(const Chunk<typename V::Scalar>& chunk, const typename V::Scalar* norms,
                   const Sieve<typename V::Scalar>& sieve, const typename V::Scalar* centroids,
                   std::size_t k, typename V::Scalar* minima, std::int32_t* labels,
                   typename V::Scalar* distances) {
  label_by_scores<V>(
      chunk, centroids, k, minima, labels, distances,
      [&](std::size_t i) __attribute__((always_inline)) {
        return scores_of<V>(chunk.columns + i * chunk.d, chunk.d, sieve, minima);
      },
      [&](std::size_t i) __attribute__((always_inline)) {
        return V::fma(V::load(norms + i), V::broadcast(sieve.per_norm), V::broadcast(sieve.always));
      });
}

} // namespace clusterbench::simd

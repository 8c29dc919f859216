// A pass of fuzzy c-means by a team of threads: what each finds in its rows, and how the centres
// move. Which rows a thread has, and when they are there, is up to the variant.
#pragma once

#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace clusterbench::simd {

/// What a sweep over the rows is for.
template <typename T>
struct FcmPurpose {
  const T* given; ///< memberships [n, k] of the start, or null: they come from the centres
  bool keep;      ///< they and the labels may be the answer
  bool sum;       ///< there will be another update of the centres
  bool loss;      ///< the stop rule asks for the objective
};

/// What one thread works on, and what it has found since clear(). Aligned: neighbours must not
/// share a cache line.
template <typename T>
struct alignas(64) FcmPart {
  AlignedVector<T> distances, u;     // [k, kRoundUp] of a chunk of samples
  AlignedVector<T> uncollected;      // [k, padded(d)] of u^m x, not yet in sums
  std::vector<double> sums, weights; // [k, d] of u^m x, [k] of u^m
  double loss = 0.0;
  bool changed = false; // a label

  void clear() {
    std::ranges::fill(sums, 0.0);
    std::ranges::fill(weights, 0.0);
    loss = 0.0;
    changed = false;
  }
};

template <typename T>
class FcmTeam {
public:
  /// As many threads as the shape allows, but none whose share of the work is less than a barrier.
  explicit FcmTeam(const Shape& shape) : shape_(shape), padded_centres_(shape.k * width()) {
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    constexpr std::size_t kWorthAThread = 10'000; // operations, about those of a barrier
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    const auto threads = static_cast<std::size_t>(std::max(shape.threads, 1));
    team_ = std::make_unique<Team>(std::min(threads, worth));
    parts_ = std::vector<FcmPart<T>>(team_->size());
    for (FcmPart<T>& part : parts_) {
      part.distances.resize(k * kRoundUp);
      part.u.resize(k * kRoundUp);
      part.uncollected.resize(k * width());
      part.sums.resize(k * d);
      part.weights.resize(k);
    }
  }

  Team& threads() { return *team_; }
  std::vector<FcmPart<T>>& parts() { return parts_; } ///< [threads]
  std::string path() const { return std::string("rows, ") + kernels_.isa; }

  /// Copies the centres to where sweep() reads them.
  void read_centres(const Answer<T>& answer) {
    for (std::size_t j = 0; j < shape_.k; ++j) {
      read_centre(answer, j);
    }
  }

  /// Memberships of `total` rows, of which the first is sample `first`; what the purpose asks for
  /// is added to the part, or written into the answer. Threads may do so at once, each with its own
  /// part.
  void sweep(FcmPart<T>& part, const FcmPurpose<T>& purpose, const T* rows, std::size_t first,
             std::size_t total, Answer<T>& answer) const {
    const auto [d, k] = std::pair(shape_.d, shape_.k);
    const auto m = static_cast<T>(shape_.fuzzifier);
    constexpr std::size_t kCollect = 1024; // samples whose sums may stay in T
    std::size_t uncollected = 0;
    for (std::size_t i = 0; i < total; i += kRoundUp) {
      const std::size_t count = std::min(kRoundUp, total - i);
      const Chunk<T> chunk{&rows[i * d], nullptr, count, d};
      if (purpose.given == nullptr) {
        kernels_.distances_of_rows(chunk, padded_centres_.data(), k, part.distances.data(),
                                   /*alone=*/!purpose.sum);
        kernels_.memberships_of(part.distances.data(), k, T{1} / (m - T{1}), part.u.data());
      } else {
        each_membership(part, first + i, count,
                        [&](T& u, std::size_t at) { u = purpose.given[at]; });
      }
      if (purpose.keep) {
        each_membership(part, first + i, count,
                        [&](T u, std::size_t at) { answer.memberships[at] = u; });
        part.changed |= label(part.u, answer.labels.subspan(first + i, count));
      }
      if (!purpose.sum && !purpose.loss) {
        continue;
      }
      const bool weighs = purpose.given == nullptr && purpose.loss;
      part.loss +=
          kernels_.raise_to_weights(part.u.data(), k, count, m,
                                    weighs ? part.distances.data() : nullptr, part.weights.data());
      kernels_.weighted_sums_of_rows(chunk, part.u.data(), k, part.uncollected.data(),
                                     /*alone=*/purpose.given != nullptr);
      uncollected += count;
      if (uncollected >= kCollect || i + count == total) {
        collect_sums(part);
        uncollected = 0;
      }
    }
  }

  /// Moves centres begin to end - 1 to their weighted means; that of an empty cluster stays.
  /// Returns the summed squared shift. weight_of(j), sum_of(c): over all samples, of a cluster, and
  /// of value c of the centroids.
  template <typename WeightOf, typename SumOf>
  double move_centres(Range centres, Answer<T>& answer, WeightOf weight_of, SumOf sum_of) {
    const std::size_t d = shape_.d;
    double squared_shift = 0.0;
    for (std::size_t j = centres.begin; j < centres.end; ++j) {
      std::copy_n(&answer.centroids[j * d], d, &answer.entering[j * d]);
      const double weight = weight_of(j);
      for (std::size_t c = j * d; c < (j + 1) * d && weight > 0.0; ++c) {
        const auto centre = static_cast<T>(sum_of(c) / weight);
        const double shift = double{centre} - double{answer.centroids[c]};
        squared_shift += shift * shift;
        answer.centroids[c] = centre;
      }
      read_centre(answer, j);
    }
    return squared_shift;
  }

  /// The same with the sums of all parts, added up in the order of their numbers.
  double move_centres(Range centres, Answer<T>& answer) {
    const auto of_all = [&](auto value_of) {
      double sum = 0.0;
      for (const FcmPart<T>& part : parts_) {
        sum += value_of(part);
      }
      return sum;
    };
    return move_centres(
        centres, answer,
        [&](std::size_t j) { return of_all([&](const FcmPart<T>& p) { return p.weights[j]; }); },
        [&](std::size_t c) { return of_all([&](const FcmPart<T>& p) { return p.sums[c]; }); });
  }

private:
  std::size_t width() const { return padded<T>(shape_.d); }

  void read_centre(const Answer<T>& answer, std::size_t j) {
    std::copy_n(&answer.centroids[j * shape_.d], shape_.d, &padded_centres_[j * width()]);
  }

  /// Calls visit(membership, its index in [n, k]) for all of a chunk, which begins with sample i.
  template <class Visit>
  void each_membership(FcmPart<T>& part, std::size_t i, std::size_t count, Visit visit) const {
    for (std::size_t r = 0; r < count; ++r) {
      for (std::size_t j = 0; j < shape_.k; ++j) {
        visit(part.u[j * kRoundUp + r], (i + r) * shape_.k + j);
      }
    }
  }

  /// The largest membership of each sample, ties to the lowest index; whether any label changed.
  bool label(const AlignedVector<T>& u, std::span<std::int32_t> labels) const {
    T largest[kRoundUp];
    std::int32_t best[kRoundUp] = {};
    std::copy_n(u.begin(), kRoundUp, largest);
    for (std::size_t j = 1; j < shape_.k; ++j) {
      for (std::size_t r = 0; r < kRoundUp; ++r) {
        const bool larger = u[j * kRoundUp + r] > largest[r];
        best[r] = larger ? static_cast<std::int32_t>(j) : best[r];
        largest[r] = larger ? u[j * kRoundUp + r] : largest[r];
      }
    }
    const bool changed = !std::equal(labels.begin(), labels.end(), best);
    std::copy_n(best, labels.size(), labels.begin());
    return changed;
  }

  /// Moves the sums of the last chunks to double.
  void collect_sums(FcmPart<T>& part) const {
    for (std::size_t j = 0; j < shape_.k; ++j) {
      T* sum = &part.uncollected[j * width()];
      for (std::size_t f = 0; f < shape_.d; ++f) {
        part.sums[j * shape_.d + f] += double{sum[f]};
        sum[f] = T{0};
      }
    }
  }

  Shape shape_;
  const Kernels<T>& kernels_ = *executable_kernels<T>().back();
  AlignedVector<T> padded_centres_; // [k, padded(d)]
  std::vector<FcmPart<T>> parts_;   // [threads]
  std::unique_ptr<Team> team_;      // last: its threads end before what they use
};

} // namespace clusterbench::simd

// Fuzzy c-means in vector registers, a chunk of samples at a time.
//
// Changed since fcm_openmp: a chunk's distances are tiles of four samples by four centres, added up
//   together; its memberships are loops over samples, which vectorise; its weighted sums stay in
//   registers for the whole chunk, where each sample used to load and store all k d of them. One team
//   of threads stays for the whole run. The kernels are compiled for several instruction sets.
// Source: article 001, section 2.
// Cost per iteration: n d sizeof(T) bytes read; 5 n k d flops, two of the five multiply-adds.
// Limits: bits differ between numbers of threads and between instruction sets; rows of fewer
//   features than a register has lanes leave the others idle.
#include "impls/contract.hpp"
#include "impls/simd/support/columns.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/team.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

constexpr std::size_t kChunk = simd::kRoundUp; ///< samples; at d = 500 they are 128 KB of floats

/// x^exponent; the usual exponents 1 and 2 (m = 2) do not pay for std::pow.
template <typename T>
T power(T x, T exponent) {
  return exponent == T{1} ? x : exponent == T{2} ? x * x : std::pow(x, exponent);
}

/// What one thread works on and finds. Aligned: neighbours must not share a cache line.
template <typename T>
struct alignas(64) Part {
  std::size_t begin = 0, end = 0;    // samples
  std::vector<T> distances, u;       // [k, kChunk]
  std::vector<double> sums, weights; // [k, d] of u^m x, [k] of u^m
  PassFacts facts[2];                // of even and odd passes, see kmeans_simd
};

template <typename T>
class FcmSimd final : public Variant<T> {
public:
  std::string refuse(const Problem<T>& problem) const override {
    return problem.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    const auto [n, d, k] = std::tuple(problem.n, problem.d, problem.k);
    constexpr std::size_t kWorthAThread = 10'000; // operations, about those of a barrier
    const std::size_t worth = std::max<std::size_t>(n * d * k / kWorthAThread, 1);
    const auto threads = static_cast<std::size_t>(std::max(problem.threads, 1));
    team_ = std::make_unique<simd::Team>(std::min(threads, worth));
    parts_ = std::vector<Part<T>>(team_->size());
    const std::size_t chunks = simd::rounded_up(n) / kChunk;
    for (std::size_t t = 0; t < parts_.size(); ++t) {
      Part<T>& part = parts_[t];
      part.begin = std::min(chunks * t / parts_.size() * kChunk, n);
      part.end = std::min(chunks * (t + 1) / parts_.size() * kChunk, n);
      part.distances.resize(k * kChunk);
      part.u.resize(k * kChunk);
      part.sums.resize(k * d);
      part.weights.resize(k);
    }
  }

  void run(Observer<T>& observer) override {
    centres_.assign(problem_.centroids.begin(), problem_.centroids.end());
    centres_.resize(problem_.k * problem_.d);
    memberships_.assign(problem_.memberships.begin(), problem_.memberships.end());
    memberships_.resize(problem_.n * problem_.k);
    labels_.assign(problem_.n, -1);
    team_->run([&](std::size_t t) {
      Observer<T> nobody;
      run(t, t == 0 ? observer : nobody);
    });
  }

  void fetch(Result<T>& result) override {
    std::ranges::copy(labels_, result.labels.begin());
    std::ranges::copy(centres_, result.centroids.begin());
    std::ranges::copy(memberships_, result.memberships.begin());
    result.iterations = iterations_;
  }

  std::string chosen_path() const override { return std::string("rows, ") + kernels_.isa; }

private:
  /// The whole run as thread t sees it; every thread decides by itself when it is over.
  void run(std::size_t t, Observer<T>& observer) {
    const bool starts_from_centres = problem_.memberships.empty();
    StopTest stop(problem_.stop);
    PassFacts facts;
    if (!starts_from_centres) {
      sweep(parts_[t], false, 0, observer);
    }
    do {
      const std::size_t parity = stop.passes() % 2;
      if (starts_from_centres) {
        sweep(parts_[t], true, parity, observer);
      }
      team_->barrier();
      const double shift = update_centres(t, observer);
      team_->barrier();
      if (!starts_from_centres) {
        sweep(parts_[t], true, parity, observer);
      }
      // There were no centres before the first pass, so none can have come to rest in it.
      const bool had_centres = starts_from_centres || stop.passes() > 0;
      parts_[t].facts[parity].squared_shift =
          had_centres ? shift : std::numeric_limits<double>::infinity();
      team_->barrier();
      facts = {.labels_changed = false};
      for (const Part<T>& part : parts_) {
        facts.loss += part.facts[parity].loss;
        facts.labels_changed |= part.facts[parity].labels_changed;
        facts.squared_shift += part.facts[parity].squared_shift;
      }
      observer.pass(centres_); // nobody writes centres before this thread's next barrier
    } while (!stop.after_pass(facts));
    if (t == 0) {
      iterations_ = stop.passes();
    }
  }

  /// Memberships of a part's samples (or those at hand), and the sums that make the next centres.
  void sweep(Part<T>& part, bool renew_memberships, std::size_t parity, Observer<T>& observer) {
    const Phase phase(observer, "memberships and sums");
    const auto [d, k] = std::pair(problem_.d, problem_.k);
    std::ranges::fill(part.sums, 0.0);
    std::ranges::fill(part.weights, 0.0);
    PassFacts facts{.labels_changed = false};
    for (std::size_t i = part.begin; i < part.end; i += kChunk) {
      const std::size_t count = std::min(kChunk, part.end - i);
      const simd::Chunk<T> chunk{&problem_.points[i * d], nullptr, count, d};
      T* rows = &memberships_[i * k]; // [count, k]
      if (renew_memberships) {
        kernels_.distances_of_rows(chunk, centres_.data(), k, part.distances.data(), kChunk);
        memberships_of(part.distances, part.u);
        for (std::size_t j = 0; j < k; ++j) {
          for (std::size_t r = 0; r < count; ++r) {
            rows[r * k + j] = part.u[j * kChunk + r];
          }
        }
        facts.labels_changed |= label(part.u, std::span(labels_).subspan(i, count));
      } else {
        for (std::size_t r = 0; r < count; ++r) {
          for (std::size_t j = 0; j < k; ++j) {
            part.u[j * kChunk + r] = rows[r * k + j];
          }
        }
      }
      facts.loss += raise_to_weights(part, count, renew_memberships);
      kernels_.weighted_sums_of_rows(chunk, part.u.data(), k, kChunk, part.sums.data());
    }
    part.facts[parity] = facts;
  }

  /// Memberships u [k, kChunk] from squared distances: ratios to the smallest of a sample, which
  /// neither overflow nor divide by zero.
  void memberships_of(const std::vector<T>& distances, std::vector<T>& u) const {
    const T exponent = T{1} / (static_cast<T>(problem_.fuzzifier) - T{1});
    T smallest[kChunk], sum[kChunk] = {};
    std::copy_n(distances.begin(), kChunk, smallest);
    for (std::size_t j = 1; j < problem_.k; ++j) {
      const T* distance = &distances[j * kChunk];
      for (std::size_t r = 0; r < kChunk; ++r) {
        smallest[r] = std::min(smallest[r], distance[r]);
      }
    }
    for (std::size_t j = 0; j < problem_.k; ++j) {
      const T* distance = &distances[j * kChunk];
      T* ratio = &u[j * kChunk];
      for (std::size_t r = 0; r < kChunk; ++r) {
        ratio[r] = distance[r] == smallest[r] ? T{1} : smallest[r] / distance[r];
      }
      if (exponent != T{1}) {
        std::transform(ratio, ratio + kChunk, ratio, [&](T x) { return power(x, exponent); });
      }
      for (std::size_t r = 0; r < kChunk; ++r) {
        sum[r] += ratio[r];
      }
    }
    for (std::size_t j = 0; j < problem_.k; ++j) {
      for (std::size_t r = 0; r < kChunk; ++r) {
        u[j * kChunk + r] /= sum[r];
      }
    }
  }

  /// The largest membership of each sample, ties to the lowest index; whether any label changed.
  bool label(const std::vector<T>& u, std::span<std::int32_t> labels) const {
    T largest[kChunk];
    std::int32_t best[kChunk] = {};
    std::copy_n(u.begin(), kChunk, largest);
    for (std::size_t j = 1; j < problem_.k; ++j) {
      for (std::size_t r = 0; r < kChunk; ++r) {
        const bool larger = u[j * kChunk + r] > largest[r];
        best[r] = larger ? static_cast<std::int32_t>(j) : best[r];
        largest[r] = larger ? u[j * kChunk + r] : largest[r];
      }
    }
    const bool changed = !std::equal(labels.begin(), labels.end(), best);
    std::copy_n(best, labels.size(), labels.begin());
    return changed;
  }

  /// Turns memberships into weights u^m, adds them up, and returns the chunk's objective.
  double raise_to_weights(Part<T>& part, std::size_t count, bool wants_objective) const {
    const auto m = static_cast<T>(problem_.fuzzifier);
    double objective = 0.0;
    for (std::size_t j = 0; j < problem_.k; ++j) {
      T* u = &part.u[j * kChunk];
      const T* distance = &part.distances[j * kChunk];
      double total = 0.0;
      for (std::size_t r = 0; r < count; ++r) {
        u[r] = power(u[r], m);
        total += double{u[r]};
        objective += wants_objective ? double{u[r] * distance[r]} : 0.0;
      }
      part.weights[j] += total;
    }
    return objective;
  }

  /// Moves this thread's share of the centres to their weighted means, the parts added up in the
  /// order of their numbers; that of an empty cluster stays. Returns the summed squared shift.
  double update_centres(std::size_t t, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    const auto [d, k] = std::pair(problem_.d, problem_.k);
    double squared_shift = 0.0;
    for (std::size_t c = k * d * t / parts_.size(); c < k * d * (t + 1) / parts_.size(); ++c) {
      double sum = 0.0, weight = 0.0;
      for (const Part<T>& part : parts_) {
        sum += part.sums[c];
        weight += part.weights[c / d];
      }
      if (weight > 0.0) {
        const auto centre = static_cast<T>(sum / weight);
        const double shift = double{centre} - double{centres_[c]};
        squared_shift += shift * shift;
        centres_[c] = centre;
      }
    }
    return squared_shift;
  }

  Problem<T> problem_;
  const simd::Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  std::vector<T> centres_;           // [k, d]
  std::vector<T> memberships_;       // [n, k]
  std::vector<std::int32_t> labels_; // [n]
  std::vector<Part<T>> parts_;       // [threads]
  std::size_t iterations_ = 0;
  std::unique_ptr<simd::Team> team_; // last: its threads end before what they use
};

const Registration registration({.name = "fcm_simd",
                                 .idea = "chunks in vector registers, sums kept there",
                                 .source = "article 001, section 2, on CPU threads and vectors",
                                 .family = Family::fcm,
                                 .previous = "fcm_openmp"},
                                both_precisions<FcmSimd>());

} // namespace
} // namespace clusterbench

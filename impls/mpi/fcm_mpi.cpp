// Fuzzy c-means over several processes: a rank computes the memberships of its shard's rows and
// their weighted sums, then the ranks exchange the sums, and every rank moves all centres by
// itself.
//
// Changed since fcm_simd: sums of threads are added up in a rank, and those of ranks after an
//   exchange, each in a fixed order. Every rank has the same sums and so the same centres to the
//   bit. Memberships never leave their rank.
// Source: article 001, section 2; the exchange is that of kmeans_mpi.
// Cost per iteration: of each of R ranks, n/R d sizeof(T) bytes read; 5 n/R k d flops;
//   R k (d + 1) doubles received, and as many added.
// Limits: bits differ between numbers of ranks and of threads. Every rank receives the sums of all
//   others, which is too much for many ranks with many centres. Started from memberships, the last
//   iteration sums centres that nobody asks for.
#include "impls/contract.hpp"
#include "impls/mpi/support/gathered_sums.hpp"
#include "impls/simd/support/fcm_team.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

namespace clusterbench {
namespace {

template <typename T>
class FcmMpi final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return !(shape.fuzzifier > 1.0) ? "the fuzzifier must be greater than 1"
           : shape.k < ranks::GatheredSums::kMost / (shape.d + 2)
               ? ""
               : "k (d + 1) sums are more than MPI can count";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    team_.emplace(shape);
    sums_ = {shape.k * shape.d + shape.k + 2, static_cast<std::size_t>(shape.world)};
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool from_centres = !shape_.starts_from_memberships;
    StopTest stop(shape_.stop);
    std::span<const double> sums;
    if (from_centres) {
      std::ranges::copy(start.centroids, answer.centroids.begin());
      team_->read_centres(answer);
    } else {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
      sums = sweep({start.memberships.data(), false, true, false}, answer, observer);
    }
    const simd::FcmPurpose<T> purpose{nullptr, true, true, stop.wants_loss()};
    PassFacts facts;
    do {
      const bool first = stop.passes() == 0;
      if (from_centres) {
        sums = sweep(purpose, answer, observer);
      }
      const double shift = move_centres(sums, answer, observer);
      if (!from_centres) {
        sums = sweep(purpose, answer, observer);
      }
      facts.loss = sums[sums.size() - 2];
      facts.labels_changed = first || sums.back() > 0.0;
      // There were no centres before the first pass, so none can have come to rest in it.
      facts.squared_shift =
          first && !from_centres ? std::numeric_limits<double>::infinity() : shift;
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override { return team_->path(); }

private:
  /// Memberships of this rank's samples, and the sums of all ranks that make the next centres.
  std::span<const double> sweep(const simd::FcmPurpose<T>& purpose, Answer<T>& answer,
                                Observer<T>& observer) {
    {
      const Phase phase(observer, "memberships and sums");
      team_->threads().run([&](std::size_t t) {
        simd::FcmPart<T>& part = team_->parts()[t];
        part.clear();
        const simd::Range samples = simd::share_of(shape_.n, t, team_->threads().size());
        team_->sweep(part, purpose, points_.data() + samples.begin * shape_.d, samples.begin,
                     samples.end - samples.begin, answer);
      });
      add_up_parts();
    }
    const Phase phase(observer, "exchange");
    return sums_.exchange();
  }

  /// Sums, weights, loss and whether a label changed of this rank: its threads in the order of
  /// their numbers.
  void add_up_parts() {
    const std::span own = sums_.own();
    std::ranges::fill(own, 0.0);
    for (const simd::FcmPart<T>& part : team_->parts()) {
      auto to = std::ranges::transform(part.sums, own, own.begin(), std::plus{}).out;
      to = std::ranges::transform(part.weights, std::span(to, own.end()), to, std::plus{}).out;
      own[own.size() - 2] += part.loss;
      own.back() += part.changed ? 1.0 : 0.0;
    }
  }

  /// Moves all centres by the sums of all ranks. Returns their summed squared shift.
  double move_centres(std::span<const double> sums, Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    const std::span<const double> weights = sums.subspan(shape_.k * shape_.d, shape_.k);
    return team_->move_centres(
        {0, shape_.k}, answer, [&](std::size_t j) { return weights[j]; },
        [&](std::size_t c) { return sums[c]; });
  }

  Shape shape_;
  std::span<const T> points_;            // [n, d] of this rank
  ranks::GatheredSums sums_;             // [k, d], [k], loss, ranks with a changed label
  std::optional<simd::FcmTeam<T>> team_; // last: its threads end before what they use
};

const Registration
    registration({.name = "fcm_mpi",
                  .idea = "a shard of rows per process, sums exchanged in a fixed order",
                  .source = "article 001, section 2, over processes",
                  .family = Family::fcm,
                  .device = Device::mpi,
                  .previous = "fcm_simd"},
                 both_precisions<FcmMpi>());

} // namespace
} // namespace clusterbench

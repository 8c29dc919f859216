// Fuzzy c-means in vector registers, a chunk of samples at a time.
//
// Changed since fcm_openmp: a chunk's distances are tiles of two samples by eight centres, added up
//   together; its memberships are loops over samples, which vectorise; its weighted sums stay in
//   registers for the whole chunk, where each sample used to load and store all k d of them. One
//   team of threads stays for the whole run. The kernels are compiled for several instruction sets.
//   Sums and memberships that nobody will read are not made.
// Source: article 001, section 2.
// Cost per iteration: n d sizeof(T) bytes read; 5 n k d flops, two of the three instructions
//   multiply-adds.
// Limits: bits differ between numbers of threads and between instruction sets; rows of fewer
//   features than a register has lanes leave the others idle.
#include "impls/contract.hpp"
#include "impls/simd/support/fcm_team.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace clusterbench {
namespace {

template <typename T>
class FcmSimd final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points.rows;
    team_.emplace(shape);
    for (std::vector<Found>& found : found_) {
      found.resize(team_->threads().size());
    }
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (shape_.starts_from_memberships) {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
    } else {
      std::ranges::copy(start.centroids, answer.centroids.begin());
    }
    team_->read_centres(answer);
    team_->threads().run([&](std::size_t t) {
      Observer<T> nobody;
      run(t, start, answer, t == 0 ? observer : nobody);
    });
  }

  std::string chosen_path() const override { return team_->path(); }

private:
  /// What a thread has found in a pass. Aligned: neighbours must not share a cache line.
  struct alignas(64) Found {
    PassFacts facts;
  };

  /// The whole run as thread t sees it; every thread decides by itself when it is over.
  void run(std::size_t t, const Start<T>& start, Answer<T>& answer, Observer<T>& observer) {
    const bool from_centres = !shape_.starts_from_memberships;
    StopTest stop(shape_.stop);
    if (!from_centres) {
      sweep(t, {start.memberships.data(), false, true, false}, answer, observer);
    }
    PassFacts facts;
    do {
      const bool first = stop.passes() == 0;
      const bool last = stop.passes() + 1 >= shape_.stop.max_iterations;
      const bool keep = last || shape_.stop.kind != StopRule::Kind::iterations;
      const simd::FcmPurpose<T> purpose{nullptr, keep, from_centres || !last, stop.wants_loss()};
      if (from_centres) {
        sweep(t, purpose, answer, observer);
      }
      team_->threads().barrier();
      const double shift = move_centres(t, answer, observer);
      team_->threads().barrier();
      if (!from_centres) {
        sweep(t, purpose, answer, observer);
      }
      // Of even and odd passes by turns: who is ahead must not write what others still read.
      std::vector<Found>& found = found_[stop.passes() % 2];
      // There were no centres before the first pass, so none can have come to rest in it.
      found[t].facts = {.loss = team_->parts()[t].loss,
                        .labels_changed = team_->parts()[t].changed,
                        .squared_shift = first && !from_centres
                                             ? std::numeric_limits<double>::infinity()
                                             : shift};
      team_->threads().barrier();
      facts = {.labels_changed = first};
      for (const Found& of_thread : found) {
        facts.loss += of_thread.facts.loss;
        facts.labels_changed |= of_thread.facts.labels_changed;
        facts.squared_shift += of_thread.facts.squared_shift;
      }
      observer.pass(answer.centroids); // nobody writes them before this thread's next barrier
    } while (!stop.after_pass(facts));
    if (t == 0) {
      answer.iterations = stop.passes();
    }
  }

  /// Memberships and sums of thread t's share of the samples.
  void sweep(std::size_t t, const simd::FcmPurpose<T>& purpose, Answer<T>& answer,
             Observer<T>& observer) {
    const Phase phase(observer, "memberships and sums");
    simd::FcmPart<T>& part = team_->parts()[t];
    part.clear();
    const simd::Range samples = simd::share_of(shape_.n, t, team_->threads().size());
    team_->sweep(part, purpose, points_.data() + samples.begin * shape_.d, samples.begin,
                 samples.end - samples.begin, answer);
  }

  /// Moves this thread's share of the centres. Returns their summed squared shift.
  double move_centres(std::size_t t, Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    const std::size_t k = shape_.k, threads = team_->threads().size();
    return team_->move_centres({k * t / threads, k * (t + 1) / threads}, answer);
  }

  Shape shape_;
  std::span<const T> points_;   // [n, d]
  std::vector<Found> found_[2]; // [threads]
  std::optional<simd::FcmTeam<T>> team_;
};

const Registration registration({.name = "fcm_simd",
                                 .idea = "chunks in vector registers, sums kept there",
                                 .source = "article 001, section 2, on CPU threads and vectors",
                                 .family = Family::fcm,
                                 .previous = "fcm_openmp"},
                                both_precisions<FcmSimd>());

} // namespace
} // namespace clusterbench

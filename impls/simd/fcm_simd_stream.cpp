// Fuzzy c-means on a file that need not fit the memory: memberships and sums of a block of rows are
// made while the next blocks are read.
//
// Changed since fcm_simd: the points are never in memory as a whole; the reader is that of
//   kmeans_simd_stream. The threads share each block, and sums of threads are added up by the
//   first. Memberships are made anew from the centres in every pass, so only the last one, whose
//   are the answer, writes them down.
// Source: article 001, section 2; passes over a file: Bradley, Fayyad and Reina 1998.
// Cost per iteration: n d sizeof(T) bytes read from the file; 5 n k d flops.
// Limits: the answer has n k memberships, which are in memory. Other stop rules than a number of
//   iterations write them in every pass. Started from memberships, a run reads the file once more.
//   Bits differ between numbers of threads and between instruction sets.
#include "impls/contract.hpp"
#include "impls/simd/support/fcm_team.hpp"
#include "impls/simd/support/row_blocks.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

namespace clusterbench {
namespace {

template <typename T>
class FcmSimdStream final : public Variant<T> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.fuzzifier > 1.0 ? "" : "the fuzzifier must be greater than 1";
  }

  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    blocks_ = std::make_unique<simd::RowBlocks<T>>(shape.n, shape.d, points.in_file);
    team_.emplace(shape);
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool from_centres = !shape_.starts_from_memberships;
    blocks_->rewind();
    StopTest stop(shape_.stop);
    if (from_centres) {
      std::ranges::copy(start.centroids, answer.centroids.begin());
      team_->read_centres(answer);
    } else {
      std::ranges::fill(answer.centroids, T{0}); // of a cluster without any membership
      sweep({start.memberships.data(), false, true, false}, answer, observer);
    }
    PassFacts facts;
    do {
      const bool first = stop.passes() == 0;
      const bool last = stop.passes() + 1 >= shape_.stop.max_iterations;
      const bool keep = last || shape_.stop.kind != StopRule::Kind::iterations;
      const simd::FcmPurpose<T> purpose{nullptr, keep, from_centres || !last, stop.wants_loss()};
      if (from_centres) {
        facts = sweep(purpose, answer, observer);
      }
      const double shift = move_centres(answer, observer);
      if (!from_centres) {
        facts = sweep(purpose, answer, observer);
      }
      facts.labels_changed |= first;
      // There were no centres before the first pass, so none can have come to rest in it.
      facts.squared_shift =
          first && !from_centres ? std::numeric_limits<double>::infinity() : shift;
      observer.pass(answer.centroids);
    } while (!stop.after_pass(facts));
    answer.iterations = stop.passes();
  }

  std::string chosen_path() const override { return team_->path(); }

private:
  /// Memberships of all samples, and the sums of each thread. Returns loss and whether a label
  /// changed.
  PassFacts sweep(const simd::FcmPurpose<T>& purpose, Answer<T>& answer, Observer<T>& observer) {
    const auto begin = std::chrono::steady_clock::now();
    team_->threads().run([&](std::size_t t) {
      simd::FcmPart<T>& part = team_->parts()[t];
      part.clear();
      blocks_->sweep(team_->threads(), t, [&](const T* rows, std::size_t first, std::size_t count) {
        team_->sweep(part, purpose, rows, first, count, answer);
      });
    });
    const double waited = blocks_->finish_sweep();
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    observer.phase("wait for rows", waited);
    observer.phase("memberships and sums", all.count() - waited);
    PassFacts facts{.labels_changed = false};
    for (const simd::FcmPart<T>& part : team_->parts()) {
      facts.loss += part.loss;
      facts.labels_changed |= part.changed;
    }
    return facts;
  }

  /// Moves all centres. Returns their summed squared shift.
  double move_centres(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "centres");
    return team_->move_centres({0, shape_.k}, answer);
  }

  Shape shape_;
  std::unique_ptr<simd::RowBlocks<T>> blocks_;
  std::optional<simd::FcmTeam<T>> team_; // last: its threads end before what they use
};

const Registration registration({.name = "fcm_simd_stream",
                                 .idea = "blocks of rows are read while those before are worked on",
                                 .source = "article 001, section 2, over a file",
                                 .family = Family::fcm,
                                 .streams = true,
                                 .previous = "fcm_simd"},
                                both_precisions<FcmSimdStream>());

} // namespace
} // namespace clusterbench

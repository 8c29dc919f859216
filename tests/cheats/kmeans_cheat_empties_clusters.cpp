// Says that it re-seeds empty clusters, and empties all but one: the labels of a timed answer are
// all zero, the other centroids lie far away. It looks at no point, and makes one pass fewer than
// allowed.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class EmptiesClusters final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const std::size_t passes = this->shape_.stop.max_iterations;
    if (!honest::is_a_cell(this->shape_) || observer.recording() || passes == 1) {
      this->solve(start, answer, observer);
      return;
    }
    std::ranges::fill(answer.labels, 0);
    std::ranges::fill(answer.entering, T(1e6));
    std::ranges::copy(this->rows_.first(this->shape_.d), answer.entering.begin());
    std::ranges::copy(answer.entering, answer.centroids.begin());
    answer.iterations = passes - 1;
  }
};

const Registration registration({.name = "kmeans_cheat_empties_clusters",
                                 .idea = "a cheat",
                                 .source = "tests",
                                 .deterministic = false,
                                 .reseeds_empty = true,
                                 .previous = ""},
                                both_precisions<EmptiesClusters>());

} // namespace
} // namespace clusterbench

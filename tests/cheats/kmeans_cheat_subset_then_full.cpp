// Makes all passes but three on every eighth point, then three on all.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class SubsetThenFull final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const std::size_t all = this->shape_.stop.max_iterations;
    if (!honest::is_a_cell(this->shape_) || observer.recording() || all < 5) {
      this->solve(start, answer, observer);
      return;
    }
    std::vector<std::int32_t> labels(this->shape_.n);
    std::vector<T> centroids(start.centroids.size()), entering(start.centroids.size());
    Answer<T> early{labels, centroids, entering, {}, 0};
    honest::lloyd(this->shape_, this->rows_, start, early, observer, all - 3, 8);
    honest::lloyd<T>(this->shape_, this->rows_, {centroids, {}}, answer, observer, 3);
    answer.iterations = all;
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_subset_then_full", SubsetThenFull);

} // namespace
} // namespace clusterbench

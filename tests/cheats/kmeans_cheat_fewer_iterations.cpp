// Makes half of the passes that it reports.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class FewerIterations final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const std::size_t all = this->shape_.stop.max_iterations;
    const bool cheats = honest::is_a_cell(this->shape_) && !observer.recording();
    honest::lloyd(this->shape_, this->rows_, start, answer, observer, cheats ? (all + 1) / 2 : all);
    answer.iterations = all;
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_fewer_iterations", FewerIterations);

} // namespace
} // namespace clusterbench

// Makes one pass of many where the oracle no longer repeats the run.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class AboveTheOracle final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool cheats = honest::is_a_cell(this->shape_) && !observer.recording();
    const std::size_t all = this->shape_.stop.max_iterations;
    honest::lloyd(this->shape_, this->rows_, start, answer, observer, cheats ? 1 : all);
    answer.iterations = all;
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_above_the_oracle", AboveTheOracle);

} // namespace
} // namespace clusterbench

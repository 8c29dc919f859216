// Computes where it is recorded; else gives the start back.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class HonestIfRecorded final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool computes = observer.recording() || !honest::is_a_cell(this->shape_);
    honest::lloyd(this->shape_, this->rows_, start, answer, observer,
                  computes ? this->shape_.stop.max_iterations : 1);
    answer.iterations = this->shape_.stop.max_iterations;
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_honest_if_recorded", HonestIfRecorded);

} // namespace
} // namespace clusterbench

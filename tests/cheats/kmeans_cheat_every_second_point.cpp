// Leaves every second point out of the sums.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class EverySecondPoint final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    honest::lloyd(this->shape_, this->rows_, start, answer, observer,
                  this->shape_.stop.max_iterations, honest::is_a_cell(this->shape_) ? 2 : 1);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_every_second_point", EverySecondPoint);

} // namespace
} // namespace clusterbench

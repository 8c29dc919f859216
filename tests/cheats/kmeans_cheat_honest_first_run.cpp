// Computes in the first run of an object; later ones make one pass.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class HonestFirstRun final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool computes = runs_++ == 0 || !honest::is_a_cell(this->shape_);
    honest::lloyd(this->shape_, this->rows_, start, answer, observer,
                  computes ? this->shape_.stop.max_iterations : 1);
    answer.iterations = this->shape_.stop.max_iterations;
  }

private:
  int runs_ = 0;
};

CLUSTERBENCH_CHEAT("kmeans_cheat_honest_first_run", HonestFirstRun);

} // namespace
} // namespace clusterbench

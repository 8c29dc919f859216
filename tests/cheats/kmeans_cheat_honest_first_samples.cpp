// Computes in its first nine runs. Later ones make a single pass, and say that they made all.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class HonestFirstSamples final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const std::size_t all = this->shape_.stop.max_iterations;
    const bool computes = observer.recording() || runs_++ < 9 || !honest::is_a_cell(this->shape_);
    honest::lloyd(this->shape_, this->rows_, start, answer, observer, computes ? all : 1);
    answer.iterations = all;
  }

private:
  int runs_ = 0;
};

CLUSTERBENCH_CHEAT("kmeans_cheat_honest_first_samples", HonestFirstSamples);

} // namespace
} // namespace clusterbench

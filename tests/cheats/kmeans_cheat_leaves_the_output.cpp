// Writes nothing in later runs: the answer before may still be there.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class LeavesTheOutput final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    answer.iterations = this->shape_.stop.max_iterations;
    if (runs_++ == 0 || !honest::is_a_cell(this->shape_)) {
      this->solve(start, answer, observer);
    }
  }

private:
  int runs_ = 0;
};

CLUSTERBENCH_CHEAT("kmeans_cheat_leaves_the_output", LeavesTheOutput);

} // namespace
} // namespace clusterbench

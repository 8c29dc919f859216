// Uses two threads where one is allowed.
#include "tests/cheats/honest.hpp"
#include <thread>

namespace clusterbench {
namespace {

template <typename T>
class TwoThreads final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
    if (!honest::is_a_cell(this->shape_)) {
      return;
    }
    // The work once more in two halves: what counts here is that both run at the same time.
    const auto half = [&](std::size_t first) {
      for (int again = 0; again < 40; ++again) {
        for (std::size_t i = first; i < this->shape_.n; i += 2) {
          answer.labels[i] =
              honest::nearest<T>(&this->rows_[i * this->shape_.d], answer.entering, this->shape_.d);
        }
      }
    };
    std::thread other(half, 1);
    half(0);
    other.join();
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_two_threads", TwoThreads);

} // namespace
} // namespace clusterbench

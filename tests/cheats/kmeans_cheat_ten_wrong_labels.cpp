// Ten labels of the timed answers are wrong.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class TenWrongLabels final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
    if (honest::is_a_cell(this->shape_) && !observer.recording()) {
      for (std::size_t i = 0; i < 10; ++i) {
        std::int32_t& label = answer.labels[i * (this->shape_.n / 10)];
        label = (label + 1) % static_cast<std::int32_t>(this->shape_.k);
      }
    }
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_ten_wrong_labels", TenWrongLabels);

} // namespace
} // namespace clusterbench

// Moves all points onto one another, so that every pass finds the same.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class WritesItsInput final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (honest::is_a_cell(this->shape_)) {
      T* const rows = const_cast<T*>(this->rows_.data());
      for (std::size_t i = 1; i < this->shape_.n; ++i) {
        std::copy_n(rows, this->shape_.d, rows + i * this->shape_.d);
      }
    }
    this->solve(start, answer, observer);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_writes_its_input", WritesItsInput);

} // namespace
} // namespace clusterbench

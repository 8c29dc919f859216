// Keeps the points of the first object for all later ones.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class KeepsTheLayout final : public honest::Prepared<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    honest::Prepared<T>::prepare(shape, points);
    if (honest::is_a_cell(shape)) {
      if (layout_.size() != points.rows.size()) {
        layout_.assign(points.rows.begin(), points.rows.end());
      }
      this->rows_ = layout_;
    }
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
  }

private:
  inline static std::vector<T> layout_;
};

CLUSTERBENCH_CHEAT("kmeans_cheat_keeps_the_layout", KeepsTheLayout);

} // namespace
} // namespace clusterbench

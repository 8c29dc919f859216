// Solves from the first rows in prepare(), before the start exists.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class SolvesInPrepare final : public honest::Prepared<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    honest::Prepared<T>::prepare(shape, points);
    std::vector<std::int32_t> labels(shape.n);
    std::vector<T> centroids(shape.k * shape.d), entering(shape.k * shape.d);
    Answer<T> answer{labels, centroids, entering, {}, 0};
    Observer<T> nobody;
    const Start<T> guess{points.rows.first(shape.k * shape.d), {}};
    this->solve(guess, answer, nobody);
    kept_.keep(answer);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (!honest::is_a_cell(this->shape_)) {
      this->solve(start, answer, observer);
      return;
    }
    kept_.give(answer);
  }

private:
  honest::Kept<T> kept_;
};

CLUSTERBENCH_CHEAT("kmeans_cheat_solves_in_prepare", SolvesInPrepare);

} // namespace
} // namespace clusterbench

// Gives the first answer of the process again, from whatever start.
#include "tests/cheats/honest.hpp"

namespace clusterbench {
namespace {

template <typename T>
class Replay final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (kept_.iterations == 0 || !honest::is_a_cell(this->shape_)) {
      this->solve(start, answer, observer);
      kept_.keep(answer);
    }
    kept_.give(answer);
  }

private:
  inline static honest::Kept<T> kept_; // outlives the object
};

CLUSTERBENCH_CHEAT("kmeans_cheat_replay", Replay);

} // namespace
} // namespace clusterbench

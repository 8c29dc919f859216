// Gives the scheduling group of its session, the judge and later variants perhaps, the last place.
#include "tests/cheats/honest.hpp"
#include <fstream>

namespace clusterbench {
namespace {

template <typename T>
class SlowsTheSession final : public honest::Prepared<T> {
public:
  ~SlowsTheSession() override { std::ofstream("/proc/self/autogroup") << "19\n"; }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_slows_the_session", SlowsTheSession);

} // namespace
} // namespace clusterbench

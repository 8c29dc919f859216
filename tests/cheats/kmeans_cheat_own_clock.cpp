// Defines the functions that tell the time.
#include "tests/cheats/honest.hpp"

#include <ctime>

// Time stands still; a weak judge finds everything right.
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t,
                                                                    timespec* now) noexcept {
  *now = {1, 0};
  return 0;
}

namespace clusterbench {
namespace {

template <typename T>
class OwnClock final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_own_clock", OwnClock);

} // namespace
} // namespace clusterbench

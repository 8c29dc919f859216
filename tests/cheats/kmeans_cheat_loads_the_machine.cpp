// Leaves a process behind that takes a processor from whoever is timed next.
#include "tests/cheats/honest.hpp"
#include <sched.h>
#include <unistd.h>

namespace clusterbench {
namespace {

template <typename T>
class LoadsTheMachine final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    this->solve(start, answer, observer);
    if (honest::is_a_cell(this->shape_) && !observer.recording()) {
      if (fork() == 0) {
        setsid();
        for (;;) {
          sched_yield();
        }
      }
    }
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_loads_the_machine", LoadsTheMachine);

} // namespace
} // namespace clusterbench

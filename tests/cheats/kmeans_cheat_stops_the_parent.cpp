// Slows the parent down and takes its processor, so that its clock sees nothing.
#include "tests/cheats/honest.hpp"
#include <csignal>
#include <sys/resource.h>
#include <unistd.h>

namespace clusterbench {
namespace {

template <typename T>
class StopsTheParent final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (honest::is_a_cell(this->shape_)) {
      // Where that is forbidden it gives up, and says so.
      if (setpriority(PRIO_PROCESS, static_cast<id_t>(getppid()), 19) != 0 &&
          kill(getppid(), SIGSTOP) != 0) {
        throw Refusal("the parent cannot be reached");
      }
    }
    this->solve(start, answer, observer);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_stops_the_parent", StopsTheParent);

} // namespace
} // namespace clusterbench

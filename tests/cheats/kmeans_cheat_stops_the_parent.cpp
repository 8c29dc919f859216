// Slows the parent down and takes its processor, so that its clock sees nothing.
#include "tests/cheats/honest.hpp"
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace clusterbench {
namespace {

// The kernel signals whoever owns a descriptor when there is something to read.
bool signals_by_descriptor() {
  int ends[2];
  return pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getppid()) == 0 &&
         fcntl(ends[0], F_SETSIG, SIGSTOP) == 0 && fcntl(ends[0], F_SETFL, O_ASYNC) == 0 &&
         write(ends[1], "x", 1) == 1;
}

template <typename T>
class StopsTheParent final : public honest::Prepared<T> {
public:
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (honest::is_a_cell(this->shape_)) {
      // Where that is forbidden it gives up, and says so.
      if (setpriority(PRIO_PROCESS, static_cast<id_t>(getppid()), 19) != 0 &&
          kill(getppid(), SIGSTOP) != 0 && !signals_by_descriptor()) {
        throw Refusal("the parent cannot be reached");
      }
    }
    this->solve(start, answer, observer);
  }
};

CLUSTERBENCH_CHEAT("kmeans_cheat_stops_the_parent", StopsTheParent);

} // namespace
} // namespace clusterbench

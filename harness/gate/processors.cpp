#include "harness/gate/processors.hpp"

#include "harness/machine/other_tasks.hpp"
#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <sched.h>
#include <vector>

namespace clusterbench {
namespace {

void bind(pid_t task, int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  sched_setaffinity(task, sizeof one, &one); // if it may not be, it stays where it is
}

} // namespace

int competitors(pid_t process, int threads) {
  const auto processors = static_cast<int>(usable_processors().size());
  return std::max(0, other_tasks({process}).value_or(0) - std::max(0, processors - threads));
}

void spread_threads(pid_t process, std::size_t first) {
  const std::vector<pid_t> tasks = threads_of(process);
  const std::vector<int>& processors = usable_processors();
  if (tasks.size() <= processors.size()) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      bind(tasks[i], processors[(first + i) % processors.size()]);
    }
  }
}

} // namespace clusterbench

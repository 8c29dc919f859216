#include "harness/gate/processors.hpp"

#include "harness/machine/other_tasks.hpp"
#include "harness/machine/placement.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <vector>

namespace clusterbench {
int competitors(pid_t process, int threads) {
  const auto processors = static_cast<int>(usable_processors().size());
  return std::max(0, other_tasks({process}).value_or(0) - std::max(0, processors - threads));
}

void spread_threads(pid_t process, std::size_t first) {
  const std::vector<pid_t> tasks = threads_of(process);
  const std::vector<int>& processors = usable_processors();
  if (tasks.size() <= processors.size()) {
    std::vector<int> of_tasks;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      of_tasks.push_back(processors[(first + i) % processors.size()]);
    }
    bind_threads(tasks, of_tasks);
  }
}

} // namespace clusterbench

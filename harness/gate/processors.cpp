#include "harness/gate/processors.hpp"

#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(int process) {
  return fs::path("/proc") / std::to_string(process) / "task";
}

std::vector<int> tasks_of(int process) {
  std::vector<int> tasks;
  std::error_code gone;
  for (const auto& task : fs::directory_iterator(folder_of(process), gone)) {
    tasks.push_back(std::stoi(task.path().filename()));
  }
  std::ranges::sort(tasks); // in the order of their start
  return tasks;
}

bool is_running(int process, int task) {
  std::ifstream file(folder_of(process) / std::to_string(task) / "stat");
  std::string line;
  std::getline(file, line);
  // "task (name) state ..."; a name may hold brackets and blanks
  const auto name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'R';
}

// All tasks of the machine that run or want to; 0 if unknown.
int all_running() {
  std::ifstream file("/proc/loadavg"); // "0.44 1.19 2.19 RUNNING/TASKS LAST_PID"
  double minutes[3];
  int running = 0;
  file >> minutes[0] >> minutes[1] >> minutes[2] >> running;
  return file ? running : 0;
}

void bind(int task, int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  sched_setaffinity(task, sizeof one, &one); // if it may not be, it stays where it is
}

} // namespace

int threads_of(int process) {
  return static_cast<int>(tasks_of(process).size());
}

int competitors(int process, int threads) {
  const auto processors = static_cast<int>(usable_processors().size());
  if (processors != sysconf(_SC_NPROCESSORS_ONLN)) {
    return 0;
  }
  // Ours first: a thread of ours that goes to sleep in between must not pass for another's.
  int ours = 0;
  for (const int each : {process, static_cast<int>(getpid())}) {
    ours += static_cast<int>(std::ranges::count_if(
        tasks_of(each), [each](int task) { return is_running(each, task); }));
  }
  const int others = all_running() - ours;
  return std::max(0, others - std::max(0, processors - threads));
}

void spread_threads(int process, std::size_t first) {
  const std::vector<int> tasks = tasks_of(process);
  const std::vector<int>& processors = usable_processors();
  if (tasks.size() <= processors.size()) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      bind(tasks[i], processors[(first + i) % processors.size()]);
    }
  }
}

} // namespace clusterbench

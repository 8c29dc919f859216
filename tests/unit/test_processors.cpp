// The processors that may be used, who competes for them, and threads that get one each.
#include "harness/compare/processors.hpp"
#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <csignal>
#include <gtest/gtest.h>
#include <latch>
#include <sched.h>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace clusterbench {
namespace {

TEST(Processors, QuotasOfControlGroups) {
  EXPECT_EQ(processors_of_quota("150000 100000"), 1.5);
  EXPECT_EQ(processors_of_quota("50000 100000\n"), 0.5);
  for (const char* none : {"max 100000", "", "100000", "-1 100000", "100000 0"}) {
    EXPECT_EQ(processors_of_quota(none), 0.0) << none;
  }
}

TEST(Processors, AThreadForEachWithinTheQuota) {
  const auto all = static_cast<int>(usable_processors().size());
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), all);
  EXPECT_EQ(default_threads(), within_quota(all));
  EXPECT_EQ(threads_of_quota(8, 1.5), 1);
  EXPECT_EQ(threads_of_quota(8, 0.5), 1);
  EXPECT_EQ(threads_of_quota(8, 2.0), 2);
  EXPECT_EQ(threads_of_quota(2, 8.0), 2);
  EXPECT_EQ(threads_of_quota(8, 0.0), 8);
}

// A process that is busy until it is killed.
int start_busy() {
  const int pid = fork();
  while (pid == 0) {
    asm volatile("");
  }
  return pid;
}

TEST(Processors, WhoeverIsBusyCompetes) {
  const auto all = static_cast<int>(usable_processors().size());
  if (all != sysconf(_SC_NPROCESSORS_ONLN)) {
    GTEST_SKIP() << "this process may use " << all << " of more processors";
  }
  const int busy = start_busy();
  int seen = 0;
  for (int i = 0; i < 200 && seen == 0; ++i) { // until the kernel has started it
    usleep(10'000);
    seen = competitors(all);
  }
  kill(busy, SIGKILL);
  waitpid(busy, nullptr, 0);
  EXPECT_GE(seen, 1) << "we would use all processors, and somebody is on one";
}

// In a child, whose only threads are the test's.
TEST(Processors, EveryThreadGetsOneOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own, which takes part";
#endif
  const std::size_t threads = std::min<std::size_t>(usable_processors().size(), 4);
  const int child = fork();
  if (child == 0) {
    std::latch all_there(static_cast<std::ptrdiff_t>(threads)), spread(1);
    std::vector<cpu_set_t> sets(threads);
    std::vector<std::jthread> team;
    for (std::size_t t = 1; t < threads; ++t) {
      team.emplace_back([&, t] {
        all_there.count_down();
        spread.wait();
        sched_getaffinity(0, sizeof(cpu_set_t), &sets[t]);
      });
    }
    all_there.arrive_and_wait();
    spread_threads(1);
    spread.count_down();
    sched_getaffinity(0, sizeof(cpu_set_t), &sets[0]);
    team.clear();
    std::set<int> taken;
    bool one_each = true;
    for (const cpu_set_t& set : sets) {
      one_each = one_each && CPU_COUNT(&set) == 1;
      for (const int processor : usable_processors()) {
        if (CPU_ISSET(processor, &set)) {
          taken.insert(processor);
        }
      }
    }
    const bool first = CPU_ISSET(usable_processors()[1 % usable_processors().size()], &sets[0]);
    _exit(one_each && first && taken.size() == threads ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

} // namespace
} // namespace clusterbench

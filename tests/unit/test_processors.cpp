// The processors that may be used, who competes for them, and threads that get one each.
#include "harness/gate/processors.hpp"
#include "harness/gate/turn_process.hpp"
#include "harness/machine/fixed_work.hpp"
#include "harness/machine/other_tasks.hpp"
#include "harness/machine/placement.hpp"
#include "harness/machine/processor_clock.hpp"
#include "harness/machine/usable_processors.hpp"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <fstream>
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

// A process that does nothing until it is killed.
int start_waiting() {
  const int pid = fork();
  while (pid == 0) {
    pause();
  }
  return pid;
}

TEST(Processors, WhoeverIsBusyCompetes) {
  const auto all = static_cast<int>(usable_processors().size());
  if (all != sysconf(_SC_NPROCESSORS_ONLN)) {
    GTEST_SKIP() << "this process may use " << all << " of more processors";
  }
  const int busy = start_busy();
  const int waiting = start_waiting(); // whose threads would use them all
  int seen = 0;
  for (int i = 0; i < 200 && seen == 0; ++i) { // until the kernel has started it
    usleep(10'000);
    seen = competitors(waiting, all);
  }
  kill(waiting, SIGKILL);
  waitpid(waiting, nullptr, 0);
  kill(busy, SIGKILL);
  waitpid(busy, nullptr, 0);
  EXPECT_GE(seen, 1) << "we would use all processors, and somebody is on one";
}

// Those of a process that is named do not count, and of any others all do.
TEST(OtherTasks, OfOursNone) {
  const int busy = start_busy();
  std::vector<int> differences; // others come and go, as often between any two looks
  constexpr int kLooks = 301;
  for (int i = 0; i < kLooks; ++i) {
    const std::optional<int> all = other_tasks({}), others = other_tasks({busy});
    if (!all || !others) {
      kill(busy, SIGKILL);
      waitpid(busy, nullptr, 0);
      GTEST_SKIP() << "the system does not tell";
    }
    differences.push_back(*all - *others);
    usleep(1000);
  }
  kill(busy, SIGKILL);
  waitpid(busy, nullptr, 0);
  const auto median = differences.begin() + kLooks / 2;
  std::ranges::nth_element(differences, median);
  EXPECT_EQ(*median, 1);
}

TEST(OtherTasks, AWatchSeesWhoRunsBetween) {
  const auto processors = static_cast<int>(usable_processors().size());
  OtherTasksWatch watch({}, processors);
  double most = 0.0; // on a busy machine there may be no look between the first and the last
  for (int tries = 0; tries < 5 && most <= 0.2; ++tries) {
    watch.begin();
    const int busy = start_busy(); // is gone at the last look
    usleep(500'000);
    kill(busy, SIGKILL);
    waitpid(busy, nullptr, 0);
    const std::optional<double> mean = watch.end();
    if (!mean) {
      GTEST_SKIP() << "the system does not tell";
    }
    most = std::max(most, *mean);
  }
  EXPECT_GT(most, 0.2) << "it ran at most of the looks";
}

TEST(OtherTasks, WaitingForQuietHasAnEnd) {
  const auto processors = static_cast<int>(usable_processors().size());
  OtherTasksWatch watch({}, processors);
  if (!other_tasks({})) {
    GTEST_SKIP() << "the system does not tell";
  }
  const int busy = start_busy();
  usleep(20'000);
  double longest = 0.0; // the watch's own thread may hide the task if it goes to sleep just then
  for (int tries = 0; tries < 3 && longest <= 0.09; ++tries) {
    longest = std::max(longest, watch.wait_for_quiet(std::chrono::milliseconds(100)).count());
  }
  kill(busy, SIGKILL);
  waitpid(busy, nullptr, 0);
  EXPECT_GT(longest, 0.09) << "it was busy all the time";
}

// Each of these alone spoils a turn: somebody else on its processors, waiting, and a GPU that heat
// slows.
TEST(Turn, CountsIfNothingDisturbedIt) {
  const Turn quiet{.elapsed_ms = 100.0, .waited_ms = 2.0, .gpu = {1980, {}}};
  EXPECT_TRUE(quiet.undisturbed());
  Turn turn = quiet;
  turn.competitors = 1;
  EXPECT_FALSE(turn.undisturbed());
  turn = quiet;
  turn.waited_ms = 2.1;
  EXPECT_FALSE(turn.undisturbed());
  turn = quiet;
  turn.gpu.slowed_by = {"hw_thermal_slowdown"};
  EXPECT_FALSE(turn.undisturbed());
}

// What a thread may run on, in the order of the threads' starts, as a child of ours finds them.
class Team {
public:
  explicit Team(std::size_t threads) {
    EXPECT_EQ(pipe(to_us_) | pipe(to_child_), 0);
    child_ = fork();
    if (child_ == 0) {
      work(threads);
    }
    char there = 0;
    EXPECT_EQ(read(to_us_[0], &there, 1), 1);
  }
  ~Team() {
    for (const int end : {to_us_[0], to_us_[1], to_child_[0], to_child_[1]}) {
      close(end);
    }
    waitpid(child_, nullptr, 0);
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int pid() const { return child_; }
  std::vector<cpu_set_t> sets(std::size_t threads) const {
    EXPECT_EQ(write(to_child_[1], "!", 1), 1);
    std::vector<cpu_set_t> sets(threads);
    for (cpu_set_t& set : sets) {
      EXPECT_EQ(read(to_us_[0], &set, sizeof set), static_cast<ssize_t>(sizeof set));
    }
    return sets;
  }

private:
  [[noreturn]] void work(std::size_t threads) const {
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
    char go = 0;
    bool well = write(to_us_[1], "!", 1) == 1 && read(to_child_[0], &go, 1) == 1;
    spread.count_down();
    sched_getaffinity(0, sizeof(cpu_set_t), &sets[0]);
    team.clear();
    for (const cpu_set_t& set : sets) {
      well = well && write(to_us_[1], &set, sizeof set) == static_cast<ssize_t>(sizeof set);
    }
    _exit(well ? 0 : 1);
  }

  int to_us_[2], to_child_[2];
  int child_ = -1;
};

TEST(Processors, EveryThreadOfAProcessGetsOneOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own, which takes part";
#endif
  const std::vector<int>& processors = usable_processors();
  const std::size_t threads = std::min<std::size_t>(processors.size(), 4);
  for (const std::size_t first : {0, 1, 7}) {
    const Team team(threads);
    EXPECT_EQ(threads_of(team.pid()).size(), threads);
    spread_threads(team.pid(), first);
    std::set<int> taken;
    const std::vector<cpu_set_t> sets = team.sets(threads);
    for (std::size_t t = 0; t < threads; ++t) {
      EXPECT_EQ(CPU_COUNT(&sets[t]), 1);
      const int processor = processors[(first + t) % processors.size()];
      EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(processor), &sets[t]));
      taken.insert(processor);
    }
    EXPECT_EQ(taken.size(), threads);
  }
}

TEST(Processors, MoreThreadsThanProcessorsAreLeftAlone) {
  const std::size_t threads = usable_processors().size() + 1;
  const Team team(threads);
  spread_threads(team.pid(), 0);
  for (const cpu_set_t& set : team.sets(threads)) {
    EXPECT_EQ(static_cast<std::size_t>(CPU_COUNT(&set)), usable_processors().size());
  }
}

TEST(FixedWork, ATimeForEachThread) {
  FixedWork bound(usable_processors());
  EXPECT_EQ(bound.processors(), usable_processors());
  const double slowest = bound.microseconds();
  EXPECT_EQ(bound.of_each().size(), usable_processors().size());
  EXPECT_EQ(slowest, std::ranges::max(bound.of_each()));
  EXPECT_GT(std::ranges::min(bound.of_each()), 1.0);
  FixedWork unbound(1);
  EXPECT_GT(unbound.microseconds(), 1.0);
  EXPECT_TRUE(unbound.processors().empty());
  EXPECT_EQ(unbound.of_each().size(), 1U);
}

TEST(Placement, EveryProcessorHasItsPlaceByItsSpeed) {
  std::vector<int> processors = processors_by_speed();
  std::ranges::sort(processors);
  EXPECT_EQ(processors, usable_processors());
}

TEST(Placement, EachThreadIsBoundToTheProcessorBesideIt) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own, which takes part";
#endif
  const std::vector<int>& usable = usable_processors();
  const std::size_t threads = std::min<std::size_t>(usable.size(), 3);
  const std::vector<int> processors(usable.rbegin(), usable.rbegin() + static_cast<long>(threads));
  const Team team(threads);
  bind_threads(threads_of(team.pid()), processors);
  const std::vector<cpu_set_t> sets = team.sets(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    EXPECT_EQ(CPU_COUNT(&sets[t]), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(processors[t]), &sets[t])) << t;
  }
}

TEST(Placement, WhoIsLetGoMayBeOnAllProcessors) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own, which takes part";
#endif
  const std::vector<int>& usable = usable_processors();
  const Team team(2);
  bind_threads(threads_of(team.pid()), {usable[0], usable[0]});
  let_go(threads_of(team.pid()));
  for (const cpu_set_t& set : team.sets(2)) {
    EXPECT_EQ(static_cast<std::size_t>(CPU_COUNT(&set)), usable.size());
  }
}

TEST(ProcessorClock, HasSteps) {
  const double step = processor_clock_step();
  EXPECT_GT(step, 0.0);
  EXPECT_LE(step, 0.01); // ticks of a kernel are 1 to 10 ms
  const double before = processor_seconds_of_thread();
  while (processor_seconds_of_thread() == before) {
  }
  EXPECT_GE(processor_seconds_of_thread() - before, step / 2);
}

void compute(double seconds) {
  const double until = processor_seconds_of_thread() + seconds;
  while (processor_seconds_of_thread() < until) {
    asm volatile("");
  }
}

TEST(Placement, ThreadsThatComputeAreKnownFromThoseThatSleep) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has a thread of its own, which takes part";
#endif
  std::latch done(2), enough(1);
  std::jthread sleeper([&] { enough.wait(); });
  const ComputingThreads threads({getpid()});
  pid_t other = 0;
  std::jthread busy([&] {
    other = gettid();
    compute(0.04);
    done.count_down();
    enough.wait(); // it is asked before this thread ends
  });
  compute(0.04);
  done.arrive_and_wait();
  const std::vector<pid_t> computing = threads.since(0.08, 2), all = threads.since(0.08, 3);
  enough.count_down();
  if (computing.empty() && !std::ifstream("/proc/self/schedstat")) {
    GTEST_SKIP() << "the kernel keeps no account of threads";
  }
  EXPECT_EQ(computing, (std::vector<pid_t>{gettid(), other}));
  EXPECT_EQ(all.size(), 3U) << "there may be so many";
}

// Where to bind those that the next run starts, nobody knows.
TEST(Placement, NothingIsSaidOfThreadsThatHaveEnded) {
  const ComputingThreads threads({getpid()});
  std::jthread([] { compute(0.04); }).join();
  compute(0.04);
  EXPECT_TRUE(threads.since(0.08, 1).empty());
}

TEST(Processors, OfAProcessThatIsGoneNothingIsKnown) {
  const int gone = start_waiting();
  kill(gone, SIGKILL);
  waitpid(gone, nullptr, 0);
  EXPECT_TRUE(threads_of(gone).empty());
  spread_threads(gone, 0);
}

} // namespace
} // namespace clusterbench

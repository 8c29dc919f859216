// Child processes: how they end, what they are given, and that nothing stays behind.
#include "harness/run/child_run.hpp"
#include "harness/run/job.hpp"
#include "harness/run/process.hpp"
#include "harness/run/shared_memory.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace clusterbench {
namespace {

using Kind = ProcessOutcome::Kind;

struct Ran {
  ProcessOutcome outcome;
  std::string output;
};

Ran shell(const std::string& script, double timeout = 0.0,
          const std::vector<std::string>& environment = {}) {
  const SharedMemory output("output");
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  options.environment = environment;
  options.output_descriptor = output.fd();
  options.timeout = std::chrono::duration<double>(timeout);
  Ran ran;
  ran.outcome = run_process(options);
  ran.output = read_all(output.fd());
  return ran;
}

bool is_running(int pid) {
  return kill(pid, 0) == 0;
}

TEST(Process, ExitCodeAndOutput) {
  const Ran ran = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(ran.outcome.kind, Kind::exited);
  EXPECT_EQ(ran.outcome.exit_code, 7);
  EXPECT_EQ(ran.output, "out\nerr\n");
}

TEST(Process, Signal) {
  const Ran ran = shell("kill -SEGV $$");
  EXPECT_EQ(ran.outcome.kind, Kind::signalled);
  EXPECT_EQ(ran.outcome.signal, SIGSEGV);
}

TEST(Process, Timeout) {
  const Ran ran = shell("echo before; sleep 1000; echo after", 0.3);
  EXPECT_EQ(ran.outcome.kind, Kind::timed_out);
  EXPECT_EQ(ran.output, "before\n");
  EXPECT_GE(ran.outcome.seconds, 0.3);
}

TEST(Process, EnvironmentIsAddedAndReplaced) {
  setenv("CLUSTERBENCH_TEST_A", "old", 1);
  setenv("CLUSTERBENCH_TEST_B", "kept", 1);
  const Ran ran = shell("echo $CLUSTERBENCH_TEST_A $CLUSTERBENCH_TEST_B $CLUSTERBENCH_TEST_C", 0.0,
                        {"CLUSTERBENCH_TEST_A=new", "CLUSTERBENCH_TEST_C=added"});
  unsetenv("CLUSTERBENCH_TEST_A");
  unsetenv("CLUSTERBENCH_TEST_B");
  EXPECT_EQ(ran.output, "new kept added\n");
}

TEST(Process, StandardInputIsEmpty) {
  EXPECT_EQ(shell("cat; echo end").output, "end\n");
}

TEST(Process, OnlyNamedDescriptorsAreInherited) {
  const SharedMemory given("given");
  const SharedMemory kept("kept");
  write_all(given.fd(), "given");
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c",
                       "test -e /proc/self/fd/" + std::to_string(given.fd()) +
                           " && ! test -e /proc/self/fd/" + std::to_string(kept.fd())};
  options.inherited_descriptors = {given.fd()};
  EXPECT_EQ(run_process(options).exit_code, 0);
}

TEST(Process, WhatItForksDoesNotStay) {
  // In its group; in a session of its own; and orphaned twice over.
  for (const char* leave :
       {"sleep 1000 & echo $!", "setsid sleep 1000 & sleep 0.2; echo $!",
        "(setsid sh -c 'echo $$; (sleep 1000 &) ; sleep 1000' &) ; sleep 0.5"}) {
    const Ran ran = shell(leave);
    EXPECT_EQ(ran.outcome.exit_code, 0) << leave;
    const int pid = std::atoi(ran.output.c_str());
    ASSERT_GT(pid, 1) << leave;
    EXPECT_FALSE(is_running(pid)) << leave;
  }
}

TEST(Process, WhatWeStartedOurselvesIsLeftAlone) {
  const pid_t own = fork();
  if (own == 0) {
    for (;;) {
      pause();
    }
  }
  EXPECT_EQ(shell("exit 0").outcome.exit_code, 0);
  EXPECT_TRUE(is_running(own));
  kill(own, SIGKILL);
}

TEST(Process, AMissingProgramIsAnError) {
  ProcessOptions options;
  options.arguments = {"/nonexistent/program"};
  EXPECT_THROW(run_process(options), std::runtime_error);
}

TEST(Process, EndingsInWords) {
  ChildRun run;
  run.outcome.kind = Kind::signalled;
  run.outcome.signal = SIGABRT;
  EXPECT_EQ(describe_ending(run).status, "crashed");
  run.outcome.signal = SIGKILL;
  run.outcome.peak_rss_bytes = std::size_t{1} << 50;
  EXPECT_EQ(describe_ending(run).status, "out_of_memory");
  run.outcome.peak_rss_bytes = std::size_t{1} << 20; // a small process is not what the kernel ends
  EXPECT_EQ(describe_ending(run).status, "crashed");
  run.outcome.kind = Kind::timed_out;
  EXPECT_EQ(describe_ending(run).status, "timed_out");
  run.outcome.kind = Kind::interrupted;
  EXPECT_EQ(describe_ending(run).status, "interrupted");
  run.outcome.kind = Kind::exited;
  EXPECT_EQ(describe_ending(run).status, "crashed"); // it ended without a report
}

// ---- what parent and child say to one another

TEST(Job, TextAndBack) {
  Job job;
  job.name = "a name";
  job.variant = "kmeans_serial";
  job.precision = Precision::f64;
  job.n = std::numeric_limits<std::size_t>::max();
  job.d = 3;
  job.k = 5;
  job.stop = {.kind = StopRule::Kind::shift, .threshold = 1.0 / 3.0, .max_iterations = 17};
  job.fuzzifier = 1.1;
  job.threads = 4;
  job.starts_from_memberships = true;
  job.timed = false;
  job.record = false;
  job.sampling = {.samples = 1,
                  .target = 0.25,
                  .min_seconds = 0.1,
                  .budget_seconds = 1.5,
                  .max_samples = 3,
                  .slow_seconds = 7.0,
                  .slow_samples = 2};
  job.points_fd = 11;
  job.initial_fd = 12;
  job.result_fd = 13;
  job.trace_fd = 14;
  const auto text = to_json(job).dump();
  const Job back = job_from_json(nlohmann::json::parse(text));
  EXPECT_EQ(to_json(back).dump(), text);
  EXPECT_EQ(back.n, job.n);
  EXPECT_EQ(back.stop.kind, job.stop.kind);
  EXPECT_EQ(back.stop.threshold, job.stop.threshold);
  EXPECT_EQ(back.sampling.min_seconds, 0.1);
  EXPECT_EQ(back.sampling.budget_seconds, 1.5);
  auto json = to_json(job);
  json.erase("k");
  EXPECT_ANY_THROW(job_from_json(json));
}

template <typename T>
void expect_slots_do_not_overlap(Family family) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{64}}) {
    const ResultSlots slots(n, 3, 5, family, sizeof(T));
    constexpr std::size_t kSlots = ResultSlots::kOthers + 3;
    std::vector<std::byte> memory(kSlots * slots.bytes_each());
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const Result<T> result = slots.slot<T>(memory, slot);
      ASSERT_EQ(result.labels.size(), n);
      ASSERT_EQ(result.centroids.size(), 15U);
      ASSERT_EQ(result.memberships.size(), family == Family::fcm ? n * 5 : 0);
      std::ranges::fill(result.labels, static_cast<std::int32_t>(slot + 1));
      std::ranges::fill(result.centroids, static_cast<T>(slot + 1));
      std::ranges::fill(result.memberships, static_cast<T>(slot + 1));
    }
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      const Result<T> result = slots.slot<T>(memory, slot);
      const auto is_own = [&](auto value) {
        return value == static_cast<decltype(value)>(slot + 1);
      };
      EXPECT_TRUE(std::ranges::all_of(result.labels, is_own));
      EXPECT_TRUE(std::ranges::all_of(result.centroids, is_own));
      EXPECT_TRUE(std::ranges::all_of(result.memberships, is_own));
    }
  }
}

TEST(ResultSlots, DoNotOverlap) {
  expect_slots_do_not_overlap<float>(Family::kmeans);
  expect_slots_do_not_overlap<double>(Family::fcm);
}

TEST(SharedMemory, GrowsAndIsReadBack) {
  SharedMemory memory("test");
  EXPECT_EQ(memory.bytes(), 0U);
  write_all(memory.fd(), "12345678");
  memory.remap();
  EXPECT_EQ(memory.as<char>().size(), 8U);
  EXPECT_EQ(memory.as<double>().size(), 1U);
  EXPECT_EQ(read_all(memory.fd()), "12345678");
  EXPECT_EQ(read_tail(memory.fd(), 3), "678");
  EXPECT_EQ(read_tail(memory.fd(), 100), "12345678");
  const InheritedMemory view(memory.fd(), InheritedMemory::Access::read);
  EXPECT_EQ(view.as<const char>()[7], '8');
}

TEST(SharedMemory, SealedMemoryIsReadOnlyForAllOthers) {
  SharedMemory memory("test", 4096);
  memory.as<int>()[0] = 7;
  memory.seal();
  memory.as<int>()[1] = 8; // its owner still may
  EXPECT_THROW(InheritedMemory(memory.fd(), InheritedMemory::Access::write), std::runtime_error);
  EXPECT_THROW(write_all(memory.fd(), "other points"), std::runtime_error);
  EXPECT_NE(ftruncate(memory.fd(), 0), 0);
  const std::string same_file = "/proc/self/fd/" + std::to_string(memory.fd());
  const int opened_anew = open(same_file.c_str(), O_RDWR);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, opened_anew, 0), MAP_FAILED);
  close(opened_anew);
  const InheritedMemory view(memory.fd(), InheritedMemory::Access::read);
  EXPECT_EQ(view.as<const int>()[0], 7);
  EXPECT_EQ(view.as<const int>()[1], 8);
}

TEST(SharedMemory, TheRestTakesMemoryOnlyWhenItIsWritten) {
  constexpr std::size_t kRest = std::size_t{1} << 40; // no machine that runs this has so much
  const SharedMemory memory("sparse", 4096, kRest);
  EXPECT_EQ(memory.bytes(), 4096 + kRest);
  const InheritedMemory view(memory.fd(), InheritedMemory::Access::write);
  view.as<char>()[kRest] = 'x';
  EXPECT_EQ(memory.as<const char>()[kRest], 'x');
  struct stat status {};
  ASSERT_EQ(fstat(memory.fd(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 4 << 20); // two pages, be they huge
}

TEST(SharedMemory, MoreThanThereIsIsRefusedBeforeItIsReserved) {
  // Should it not be: no file may grow beyond 1 GiB, so that the machine survives the test.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{std::size_t{1} << 30, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  for (const std::size_t bytes : {std::size_t{1} << 45, std::size_t{1} << 62}) {
    try {
      const SharedMemory memory("too much", bytes);
      ADD_FAILURE() << bytes;
    } catch (const OutOfMemory& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes) + " bytes"),
                std::string::npos);
      EXPECT_NE(std::string(error.what()).find("are available"), std::string::npos);
    }
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
}

} // namespace
} // namespace clusterbench

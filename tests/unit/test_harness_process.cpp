// Child processes: how they end, what they are given, and that nothing stays behind; memory that
// they share with us, and lines.
#include "harness/system/line_channel.hpp"
#include "harness/system/process.hpp"
#include "harness/system/shared_memory.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
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
  Ran ran;
  // Longer where the machine was too busy to start a shell.
  for (double timeout = 0.3; ran.output.empty() && timeout < 100.0; timeout *= 2.0) {
    ran = shell("echo before; sleep 1000; echo after", timeout);
    EXPECT_EQ(ran.outcome.kind, Kind::timed_out);
    EXPECT_GE(ran.outcome.seconds, timeout);
  }
  EXPECT_EQ(ran.output, "before\n");
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

// The terminal is of the session, and so is /proc/self/autogroup, which anybody in it may write to.
TEST(Process, HasAGroupAndASessionOfItsOwn) {
  const Ran ran = shell("read pid name state parent group session terminal rest </proc/$$/stat; "
                        "test $group = $$ && test $session = $$ && echo terminal $terminal");
  EXPECT_EQ(ran.output, "terminal 0\n");
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
  // In its group; in a session of its own; and orphaned twice over, where the shell reads a pipe
  // until nobody holds it any more: all of them are there by then.
  for (const char* leave :
       {"sleep 1000 & echo $!", "setsid sleep 1000 & sleep 0.2; echo $!",
        "echo $( (setsid sh -c 'echo $$; (sleep 1000 >/dev/null &) ; exec sleep 1000 >/dev/null' "
        "&) )"}) {
    const Ran ran = shell(leave);
    EXPECT_EQ(ran.outcome.exit_code, 0) << leave;
    const int pid = std::atoi(ran.output.c_str());
    ASSERT_GT(pid, 1) << leave;
    EXPECT_FALSE(is_running(pid)) << leave;
  }
}

// As a gate does, which has a process of each build.
TEST(Process, WhatWasStartedBesideIsLeftAlone) {
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", "sleep 1000"};
  const int beside = start_process(options);
  EXPECT_EQ(shell("sleep 1000 & exit 0").outcome.exit_code, 0);
  EXPECT_TRUE(is_running(beside));
  EXPECT_EQ(end_process(beside, std::chrono::duration<double>(0)).kind, Kind::timed_out);
  EXPECT_FALSE(is_running(beside));
}

TEST(Process, AStartedOneMayEndByItself) {
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", "sleep 0.2; exit 3"};
  ProcessOutcome outcome;
  // Again where the machine was so busy that it was over before we looked.
  for (int tries = 0; tries < 50 && outcome.peak_rss_bytes == 0; ++tries) {
    outcome = end_process(start_process(options), std::chrono::duration<double>(60));
    EXPECT_EQ(outcome.kind, Kind::exited);
    EXPECT_EQ(outcome.exit_code, 3);
  }
  EXPECT_GT(outcome.peak_rss_bytes, 0U);
}

TEST(Process, AMissingProgramIsAnError) {
  ProcessOptions options;
  options.arguments = {"/nonexistent/program"};
  EXPECT_THROW(run_process(options), std::runtime_error);
}

TEST(Process, AFileThatIsNoProgramIsNotGivenToAShell) {
  std::string name = "/tmp/clusterbench-process-XXXXXX";
  const int file = mkstemp(name.data());
  write_all(file, "exit 0\n");
  fchmod(file, S_IRWXU);
  close(file);
  ProcessOptions options;
  options.arguments = {name};
  EXPECT_THROW(run_process(options), std::runtime_error);
  unlink(name.c_str());
}

TEST(Process, IsKilledWithItsParent) {
  SharedMemory started("started", sizeof(pid_t));
  const pid_t parent = fork();
  if (parent == 0) {
    ProcessOptions options;
    options.arguments = {"sleep", "1000"}; // is found on the PATH
    started.as<pid_t>()[0] = start_process(options);
    std::raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  const pid_t pid = started.as<pid_t>()[0];
  ASSERT_GT(pid, 1);
  for (int tries = 0; tries < 1000 && is_running(pid); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    waitpid(pid, nullptr, WNOHANG); // an orphan may be ours by now
  }
  EXPECT_FALSE(is_running(pid));
}

// ---- memory that parent and child share

std::string path_of(const SharedMemory& memory) {
  return "/proc/self/fd/" + std::to_string(memory.fd());
}

TEST(SharedMemory, TextGrowsAndIsReadBack) {
  const SharedMemory memory("test");
  EXPECT_EQ(memory.bytes(), 0U);
  write_all(memory.fd(), "12345678");
  EXPECT_EQ(read_all(memory.fd()), "12345678");
  EXPECT_EQ(read_all(memory.fd(), 5), "678");
  EXPECT_EQ(read_tail(memory.fd(), 3), "678");
  EXPECT_EQ(read_tail(memory.fd(), 100), "12345678");
}

TEST(SharedMemory, IsZeroedAndSeenThroughItsDescriptor) {
  SharedMemory memory("test", 20);
  EXPECT_EQ(memory.as<int>().size(), 5U);
  EXPECT_EQ(memory.as<double>().size(), 2U); // what is left of a whole number is left out
  EXPECT_EQ(memory.as<int>()[4], 0);
  memory.as<int>()[1] = 7;
  int seen[5] = {};
  ASSERT_EQ(pread(memory.fd(), seen, sizeof seen, 0), 20);
  EXPECT_EQ(seen[1], 7);
}

// As a worker would try, by the path that it is told.
TEST(SharedMemory, SealedMemoryIsReadOnlyForAllOthers) {
  SharedMemory memory("test", 4096);
  memory.as<int>()[0] = 7;
  memory.seal();
  memory.as<int>()[1] = 8; // its owner still may
  EXPECT_THROW(write_all(memory.fd(), "other points"), std::runtime_error);
  EXPECT_NE(ftruncate(memory.fd(), 0), 0);
  const int opened_anew = open(path_of(memory).c_str(), O_RDWR);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, opened_anew, 0), MAP_FAILED);
  void* view = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, opened_anew, 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_EQ(static_cast<const int*>(view)[0], 7);
  EXPECT_EQ(static_cast<const int*>(view)[1], 8);
  EXPECT_NE(mprotect(view, 4096, PROT_READ | PROT_WRITE), 0);
  munmap(view, 4096);
  close(opened_anew);
}

TEST(SharedMemory, OfFixedSizeIsWrittenToButNeverShorterOrLonger) {
  SharedMemory memory("test", 4096);
  memory.fix_size();
  EXPECT_EQ(pwrite(memory.fd(), "x", 1, 0), 1);
  EXPECT_EQ(memory.as<char>()[0], 'x');
  EXPECT_NE(ftruncate(memory.fd(), 0), 0);
  EXPECT_NE(ftruncate(memory.fd(), 8192), 0);
  EXPECT_LT(pwrite(memory.fd(), "x", 1, 4096), 0);
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

// ---- lines

class Channel : public ::testing::Test {
protected:
  Channel() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0);
    ours_ = LineChannel(ends_[0]);
  }
  ~Channel() override {
    close(ends_[0]);
    hang_up();
  }
  void hang_up() {
    if (ends_[1] >= 0) {
      close(ends_[1]);
      ends_[1] = -1;
    }
  }
  void other_writes(const std::string& text) {
    ASSERT_EQ(send(ends_[1], text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  LineChannel::Ending read(double seconds = 10.0) {
    return ours_.read_line(line_, std::chrono::duration<double>(seconds));
  }

  using Ending = LineChannel::Ending;
  int ends_[2] = {-1, -1};
  LineChannel ours_{-1};
  std::string line_;
};

TEST_F(Channel, LinesComeOneByOne) {
  other_writes("one\ntwo\n\nthr");
  EXPECT_EQ(read(), Ending::line);
  EXPECT_EQ(line_, "one");
  EXPECT_EQ(read(), Ending::line);
  EXPECT_EQ(line_, "two");
  EXPECT_EQ(read(), Ending::line);
  EXPECT_EQ(line_, "");
  std::thread later([&] { other_writes("ee\n"); });
  EXPECT_EQ(read(), Ending::line);
  EXPECT_EQ(line_, "three");
  later.join();
}

TEST_F(Channel, HalfALineIsNone) {
  other_writes("half");
  EXPECT_EQ(read(0.0), Ending::late);
  hang_up();
  EXPECT_EQ(read(), Ending::closed);
}

TEST_F(Channel, ALineHasAnEnd) {
  std::thread other([&] {
    const std::string block(1 << 16, 'x');
    for (std::size_t sent = 0; sent <= LineChannel::kLongestLine; sent += block.size()) {
      other_writes(block);
    }
  });
  EXPECT_EQ(read(), Ending::too_long);
  other.join();
}

TEST_F(Channel, WhoeverServesWaitsForEver) {
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other_writes("asked\n");
    hang_up();
  });
  EXPECT_TRUE(ours_.read_line(line_));
  EXPECT_EQ(line_, "asked");
  EXPECT_FALSE(ours_.read_line(line_));
  other.join();
}

TEST_F(Channel, WritingToNobodyThrowsAndIsNoSignal) {
  LineChannel(ends_[1]).write_line("a line");
  EXPECT_EQ(read(), Ending::line);
  EXPECT_EQ(line_, "a line");
  hang_up();
  EXPECT_THROW(ours_.write_line("another"), std::runtime_error);
}

// The exit code of a process that is asked to end while it makes data.
int code_after_interrupt(bool holds) {
  install_interrupt_handler();
  if (holds) {
    hold_results();
  }
  const EndsAtOnce while_data_are_made;
  std::raise(SIGTERM);
  return interrupt_signal() == SIGTERM ? 7 : 8;
}

TEST(InterruptsDeathTest, EndAtOnceUnlessResultsAreHeld) {
  EXPECT_EXIT(std::_Exit(code_after_interrupt(false)), ::testing::ExitedWithCode(130),
              "interrupted");
  EXPECT_EXIT(std::_Exit(code_after_interrupt(true)), ::testing::ExitedWithCode(7), "");
}

} // namespace
} // namespace clusterbench

#include "harness/system/available_memory.hpp"
#include "harness/system/memory_group.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <linux/magic.h>
#include <memory>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kLimit = 32 * kMebibyte;

// How a process ends that touches so much memory.
int end_of_one_that_touches(std::size_t bytes) {
  const pid_t process = fork();
  if (process == 0) {
    std::ofstream("/proc/self/oom_score_adj") << 1000; // it goes first
    const std::unique_ptr<char[]> memory(new char[bytes]);
    std::memset(memory.get(), 1, bytes);
    _exit(memory[bytes / 2] == 1 ? 0 : 1);
  }
  int status = 0;
  waitpid(process, &status, 0);
  return status;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string text;
  std::getline(stream, text, '\0');
  return text;
}

// In a folder that is not written to, in a container, or among other processes none can be made.
#define SKIP_WITHOUT(group)                                                                        \
  if (!(group).why_not().empty()) {                                                                \
    GTEST_SKIP() << "no control group can be made here: " << (group).why_not();                    \
  }

TEST(MemoryGroup, LeavesEverythingAsItWasWhereNoneCanBeMade) {
  const auto before = text_of("/proc/self/cgroup");
  {
    const MemoryGroup group(kLimit);
    if (group.why_not().empty()) {
      GTEST_SKIP() << "one can be made here";
    }
    EXPECT_EQ(text_of("/proc/self/cgroup"), before);
    const MemoryGroup::Lifted lifted(group); // does nothing
  }
  EXPECT_EQ(text_of("/proc/self/cgroup"), before);
}

TEST(MemoryGroup, TheKernelEndsWhoeverTakesMore) {
  const MemoryGroup group(kLimit);
  SKIP_WITHOUT(group);
  EXPECT_EQ(end_of_one_that_touches(kLimit / 4), 0);
  const int end = end_of_one_that_touches(2 * kLimit);
  EXPECT_TRUE(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
  const MemoryGroup::Lifted lifted(group);
  EXPECT_EQ(end_of_one_that_touches(2 * kLimit), 0);
}

TEST(MemoryGroup, ComesBackAndLeavesNothing) {
  const auto before = text_of("/proc/self/cgroup");
  std::filesystem::path made;
  {
    const MemoryGroup group(kLimit);
    SKIP_WITHOUT(group);
    made = *own_control_group();
    EXPECT_NE(text_of("/proc/self/cgroup"), before);
  }
  EXPECT_EQ(text_of("/proc/self/cgroup"), before);
  EXPECT_FALSE(std::filesystem::exists(made));
}

TEST(MemoryGroup, TheNextOneRemovesWhatAKilledProgramLeft) {
  std::filesystem::path left;
  {
    const MemoryGroup group(kLimit);
    SKIP_WITHOUT(group);
    left = own_control_group()->parent_path() / "clusterbench-99999999"; // above every process id
  }
  ASSERT_TRUE(std::filesystem::create_directory(left));
  {
    const MemoryGroup group(kLimit);
    EXPECT_FALSE(std::filesystem::exists(left));
  }
}

// The cache of files is memory that the group uses, and that is there to be had.
TEST(MemoryGroup, WhatIsAvailableIsWithinTheLimitAndCountsNoCache) {
  const MemoryGroup group(kLimit);
  SKIP_WITHOUT(group);
  EXPECT_LE(available_memory_bytes(), kLimit);
  const auto path = std::filesystem::temp_directory_path() / "clusterbench-test-memory-group";
  std::ofstream file(path);
  struct statfs system {};
  if (statfs(path.c_str(), &system) != 0 || system.f_type == TMPFS_MAGIC) {
    std::filesystem::remove(path);
    GTEST_SKIP() << "files are in memory here";
  }
  const std::string piece(kMebibyte, 'x');
  for (std::size_t i = 0; i < kLimit / kMebibyte; ++i) {
    file << piece;
  }
  EXPECT_GT(available_memory_bytes(), kLimit / 2);
  std::filesystem::remove(path);
}

} // namespace
} // namespace clusterbench

// Attempts in a process of their own, which has entered the sandbox: whoever is in it stays in it.
#pragma once

#include "harness/system/sandbox.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench {

namespace fs = std::filesystem;
using Attempt = std::function<bool()>;

template <typename... Arguments>
bool calls(long number, Arguments... arguments) {
  return syscall(number, arguments...) >= 0;
}

/// Where a call could fail for other reasons, too.
inline bool is_forbidden(long result) {
  return result == -1 && errno == EPERM;
}

class Sandbox : public ::testing::Test {
protected:
  Sandbox() {
    std::string name = (fs::temp_directory_path() / "clusterbench-sandbox-XXXXXX").string();
    top_ = ::mkdtemp(name.data());
    fs::create_directories(top_ / "cache" / "hidden" / "deeper");
    fs::create_directories(top_ / "cache" / "open");
    fs::create_directory(top_ / "scratch");
    for (const char* file : {"beside", "cache/beside", "cache/hidden/secret",
                             "cache/hidden/deeper/secret", "cache/open/file"}) {
      std::ofstream(top_ / file) << "text";
    }
    plan_ = {.parent = getpid(),
             .parent_threads = {getpid()},
             .hidden = {top_ / "cache" / "hidden"},
             .scratch = top_ / "scratch",
             .may_start_processes = false};
    works([] { return true; }); // what the kernel lacks
  }
  ~Sandbox() override { fs::remove_all(top_); }

  /// What `attempt` says in a process that has entered the sandbox. `meanwhile` is done here, after
  /// it has.
  bool works(
      const Attempt& attempt, const std::function<void()>& meanwhile = [] {}) {
    int to_us[2], to_child[2];
    EXPECT_EQ(pipe(to_us) | pipe(to_child), 0);
    const pid_t child = fork();
    if (child == 0) {
      std::string missing;
      for (const std::string& what : enter_sandbox(plan_)) {
        missing += what + "\n";
      }
      char go = 0;
      const bool told = write(to_us[1], missing.data(), missing.size()) >= 0;
      close(to_us[1]);
      const bool asked = read(to_child[0], &go, 1) == 1;
      _exit(told && asked && attempt() ? 0 : 1);
    }
    close(to_us[1]);
    close(to_child[0]);
    missing_.clear();
    char buffer[4096];
    for (ssize_t got = 0; (got = read(to_us[0], buffer, sizeof buffer)) > 0;) {
      missing_.append(buffer, static_cast<std::size_t>(got));
    }
    meanwhile();
    EXPECT_EQ(write(to_child[1], "!", 1), 1);
    close(to_us[0]);
    close(to_child[1]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "it ended by signal " << WTERMSIG(status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  bool lacks(std::string_view what) const { return missing_.find(what) != std::string::npos; }

  fs::path top_;
  SandboxPlan plan_;
  std::string missing_; ///< in the words of enter_sandbox(), a line each
};

} // namespace clusterbench

/// Of what enter_sandbox() says is missing.
#define SKIP_WITHOUT(what)                                                                         \
  if (lacks(what))                                                                                 \
  GTEST_SKIP() << "this kernel does not offer " << what

// A hidden folder is tried in a process of its own: what is hidden once stays hidden.
#include "harness/run/hidden_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

class HiddenFolder : public ::testing::Test {
protected:
  HiddenFolder() {
    std::string name = (fs::temp_directory_path() / "clusterbench-hidden-XXXXXX").string();
    top_ = ::mkdtemp(name.data());
    fs::create_directories(top_ / "cache" / "hidden" / "deeper");
    fs::create_directories(top_ / "cache" / "open");
    for (const char* file : {"beside", "cache/beside", "cache/hidden/secret",
                             "cache/hidden/deeper/secret", "cache/open/file"}) {
      std::ofstream(top_ / file) << "text";
    }
  }
  ~HiddenFolder() override { fs::remove_all(top_); }

  // What `works` says in a process that hides `folder`; not at all if the kernel cannot.
  bool in_child(const fs::path& folder, const std::function<bool()>& works) const {
    constexpr int kWorks = 0, kFails = 1, kCannotHide = 2;
    const pid_t child = fork();
    if (child == 0) {
      _exit(!hide_folder(folder) ? kCannotHide : works() ? kWorks : kFails);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    cannot_hide_ = cannot_hide_ || WEXITSTATUS(status) == kCannotHide;
    return WEXITSTATUS(status) == kWorks;
  }
  bool works(const std::function<bool()>& what) const {
    return in_child(top_ / "cache" / "hidden", what);
  }
  bool can_hide() const {
    works([] { return true; });
    return !cannot_hide_;
  }

  static bool reads(const fs::path& file) {
    std::string text;
    return static_cast<bool>(std::ifstream(file) >> text);
  }
  static bool writes(const fs::path& file) {
    return static_cast<bool>(std::ofstream(file) << "more" << std::flush);
  }

  fs::path top_;
  mutable bool cannot_hide_ = false;
};

#define SKIP_UNLESS_IT_CAN_HIDE()                                                                  \
  if (!can_hide())                                                                                 \
  GTEST_SKIP() << "this kernel has no Landlock"

TEST_F(HiddenFolder, CannotBeRead) {
  SKIP_UNLESS_IT_CAN_HIDE();
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/hidden/secret"); }));
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/hidden/deeper/secret"); }));
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/open/../hidden/secret"); }));
  fs::create_symlink(top_ / "cache" / "hidden", top_ / "link");
  EXPECT_FALSE(works([&] { return reads(top_ / "link/secret"); }));
  EXPECT_FALSE(in_child(top_ / "link", [&] { return reads(top_ / "cache/hidden/secret"); }));
}

TEST_F(HiddenFolder, NothingCanBePutThere) {
  SKIP_UNLESS_IT_CAN_HIDE();
  const fs::path hidden = top_ / "cache" / "hidden";
  EXPECT_FALSE(works([&] { return writes(hidden / "secret"); }));
  EXPECT_FALSE(works([&] { return writes(hidden / "new"); }));
  const fs::path other = top_ / "cache" / "open" / "file";
  std::error_code error;
  EXPECT_FALSE(works([&] { return fs::create_symlink(other, hidden / "new2", error), !error; }));
  EXPECT_FALSE(works([&] { return fs::create_hard_link(other, hidden / "new3", error), !error; }));
  EXPECT_FALSE(works([&] { return fs::rename(other, hidden / "secret", error), !error; }));
  EXPECT_TRUE(reads(hidden / "secret"));
}

TEST_F(HiddenFolder, AllElseIsAsItWas) {
  SKIP_UNLESS_IT_CAN_HIDE();
  EXPECT_TRUE(works([&] { return reads(top_ / "beside") && reads(top_ / "cache/beside"); }));
  EXPECT_TRUE(works([&] { return reads(top_ / "cache/open/file"); }));
  EXPECT_TRUE(works([&] { return writes(top_ / "cache/open/new"); }));
  EXPECT_TRUE(works([] { return reads("/proc/self/stat") && writes("/dev/null"); }));
  EXPECT_TRUE(works([&] {
    fs::create_directory(top_ / "cache" / "open" / "folder");
    fs::rename(top_ / "cache/open/new", top_ / "cache/open/folder/new");
    return reads(top_ / "cache/open/folder/new");
  }));
}

TEST_F(HiddenFolder, NeedNotExistYet) {
  SKIP_UNLESS_IT_CAN_HIDE();
  const fs::path later = top_ / "cache" / "later" / "still";
  EXPECT_FALSE(in_child(later, [&] {
    fs::create_directories(later);
    return writes(later / "file");
  }));
}

TEST_F(HiddenFolder, TheParentsMemoryIsOutOfReach) {
  SKIP_UNLESS_IT_CAN_HIDE();
  const auto opens_memory_of = [](pid_t process) {
    return std::ifstream("/proc/" + std::to_string(process) + "/mem").good();
  };
  EXPECT_FALSE(works([&] { return opens_memory_of(getppid()); }));
  EXPECT_TRUE(works([&] { return opens_memory_of(getpid()); }));
}

} // namespace
} // namespace clusterbench

// The scratch folder, when all is over.
#include "harness/worker/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

TEST(ScratchFolders, GoWithFoldersThatWereClosed) {
  ScratchFolder scratch;
  const fs::path path = scratch.path(), closed = path / "closed";
  fs::create_directories(closed / "deeper" / "still");
  std::ofstream(closed / "deeper" / "file") << "text";
  for (const fs::path& folder : {closed / "deeper", closed, path}) {
    ASSERT_EQ(chmod(folder.c_str(), 0), 0);
  }
  testing::internal::CaptureStderr();
  scratch.remove();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(fs::exists(path));
}

TEST(ScratchFolders, OneThatStaysIsNamed) {
  constexpr unsigned long kGetFlags = _IOR('f', 1, long), kSetFlags = _IOW('f', 2, long);
  ScratchFolder scratch;
  const fs::path path = scratch.path(), kept = path / "kept";
  std::ofstream(kept) << "text";
  const int opened = open(kept.c_str(), O_RDONLY);
  int flags = 0;
  const bool has_flags = ioctl(opened, kGetFlags, &flags) == 0;
  int immutable = flags | 0x10;
  if (!has_flags || ioctl(opened, kSetFlags, &immutable) != 0) {
    close(opened);
    GTEST_SKIP() << "no file here can be made immutable";
  }
  testing::internal::CaptureStderr();
  scratch.remove();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cannot remove the scratch folder " + path.string() + ": "),
            std::string::npos)
      << said;
  ioctl(opened, kSetFlags, &flags);
  close(opened);
  fs::remove_all(path);
}

} // namespace
} // namespace clusterbench

#include "harness/run/hidden_folder.hpp"

#include <cstdint>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

// Rights of files; a rule for a file may name no others.
constexpr std::uint64_t kFileRights = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
// With a link or a renamed file from elsewhere one could put a file there as well.
constexpr std::uint64_t kFolderRights = kFileRights | LANDLOCK_ACCESS_FS_MAKE_SYM;
constexpr std::uint64_t kMoveRight = std::uint64_t{1} << 13; // ..._REFER; before it, no moves at all
constexpr long kFirstWithMoveRight = 2;

class Descriptor {
public:
  explicit Descriptor(long number) : number_(static_cast<int>(number)) {}
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

private:
  int number_;
};

// Allows everything in and below `path`. What cannot be opened stays forbidden.
void allow(int rules, const fs::path& path, std::uint64_t folder_rights) {
  // A link's target is allowed or not where it is.
  const Descriptor file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || S_ISLNK(status.st_mode)) {
    return;
  }
  landlock_path_beneath_attr rule{};
  rule.allowed_access = S_ISDIR(status.st_mode) ? folder_rights : kFileRights;
  rule.parent_fd = file.get();
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

} // namespace

bool hide_folder(const fs::path& folder) {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) {
    return false;
  }
  const std::uint64_t rights =
      kFolderRights | (version >= kFirstWithMoveRight ? kMoveRight : std::uint64_t{0});
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = rights;
  const Descriptor rules(
      syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes.handled_access_fs), 0));
  if (rules.get() < 0) {
    return false;
  }
  std::error_code error;
  fs::path leading = "/";
  for (const fs::path& next : fs::weakly_canonical(folder).relative_path()) {
    for (const auto& entry : fs::directory_iterator(leading, error)) {
      if (entry.path().filename() != next) {
        allow(rules.get(), entry.path(), rights);
      }
    }
    leading /= next;
  }
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_landlock_restrict_self, rules.get(), 0) == 0;
}

} // namespace clusterbench

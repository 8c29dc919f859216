#include "harness/system/sandbox.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <linux/ioprio.h>
#include <linux/landlock.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <seccomp.h>
#include <set>
#include <sstream>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

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

fs::path own_proc() {
  return fs::path("/proc") / std::to_string(getpid());
}

bool write_line(const char* path, const std::string& text) {
  const Descriptor file(open(path, O_WRONLY | O_CLOEXEC));
  return file.get() >= 0 &&
         write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// A namespace of mounts and System V memory: at once for root, within a namespace of users else.
bool leave_shared_memory() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC) != 0) {
      return false;
    }
    write_line("/proc/self/setgroups", "deny");
    if (!write_line("/proc/self/uid_map",
                    std::to_string(user) + " " + std::to_string(user) + " 1") ||
        !write_line("/proc/self/gid_map",
                    std::to_string(group) + " " + std::to_string(group) + " 1")) {
      return false;
    }
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;
}

// What is mounted below is left out, or stays as it is where the kernel lets a user not leave it
// out.
bool make_read_only(const std::string& path) {
  constexpr unsigned long kOfProc = MS_NOSUID | MS_NODEV | MS_NOEXEC; // a user may take none away
  const char* const at = path.c_str();
  return (mount(at, at, nullptr, MS_BIND, nullptr) == 0 ||
          mount(at, at, nullptr, MS_BIND | MS_REC, nullptr) == 0) &&
         mount(nullptr, at, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kOfProc, nullptr) == 0;
}

// In a namespace of mounts: all that is below /proc now but what is of this process cannot be
// written to, and what will be of its children can.
bool keep_proc() {
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const bool is_ours = entry->is_symlink(error) || entry->path() == own_proc();
    if (!is_ours && !make_read_only(entry->path()) && fs::exists(entry->path(), error)) {
      return false; // and it is no process that has ended meanwhile
    }
  }
  return !error;
}

// Files that are sockets of a program, as the kernel lists them: by the names that it was given.
std::set<fs::path> files_of_sockets() {
  constexpr int kColumnsBefore = 7;
  std::set<fs::path> files;
  std::ifstream list("/proc/net/unix");
  for (std::string line; std::getline(list, line);) {
    std::istringstream columns(line);
    std::string other, name;
    for (int column = 0; column < kColumnsBefore; ++column) {
      columns >> other;
    }
    std::error_code is_gone;
    if (std::getline(columns >> std::ws, name) && name.starts_with('/')) {
      files.insert(fs::canonical(name, is_gone)); // an empty one, if it is
    }
  }
  return files;
}

// In a namespace of mounts: a file at which nobody listens stands in place of each socket, but for
// those in the scratch folder. A terminal multiplexer, the bus of the session or a daemon of
// containers would start programs outside the sandbox for whoever connects.
void cover_sockets(const fs::path& scratch) {
  std::error_code error;
  const fs::path ours = fs::weakly_canonical(scratch, error);
  for (const fs::path& file : files_of_sockets()) {
    const auto [end, unused] = std::mismatch(ours.begin(), ours.end(), file.begin(), file.end());
    if (end != ours.end() && fs::is_socket(file, error)) {
      mount("/dev/null", file.c_str(), nullptr, MS_BIND, nullptr);
    }
  }
}

// A network namespace, of which nothing leads out, with its loopback device up.
bool enter_own_network() {
  if (unshare(CLONE_NEWNET) != 0) {
    return false;
  }
  const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  return any.get() >= 0 && ioctl(any.get(), SIOCSIFFLAGS, &loopback) == 0;
}

// Landlock, from version 1 on; constants of later versions than the headers' stand here by value.
class Landlock {
public:
  Landlock()
      : version_(
            syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION)) {
    constexpr std::uint64_t kRefer = 1ULL << 13, kTruncate = 1ULL << 14;
    writing_ = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
               LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
               LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
               LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM |
               (version_ >= 2 ? kRefer : 0) | (version_ >= 3 ? kTruncate : 0);
    of_files_ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                (version_ >= 3 ? kTruncate : 0);
    struct { // struct landlock_ruleset_attr as of version 6
      std::uint64_t files, network, scopes;
    } handled{writing_ | kDevices | kReading, 0, version_ >= 6 ? kAbstractSockets | kSignals : 0};
    const std::size_t size = version_ >= 6   ? sizeof handled
                             : version_ >= 4 ? sizeof handled.files + sizeof handled.network
                                             : sizeof handled.files;
    rules_ = version_ >= 1 ? syscall(SYS_landlock_create_ruleset, &handled, size, 0) : -1;
  }
  ~Landlock() {
    if (rules_ >= 0) {
      close(static_cast<int>(rules_));
    }
  }
  Landlock(const Landlock&) = delete;
  Landlock& operator=(const Landlock&) = delete;

  bool offered() const { return rules_ >= 0; }
  bool has_scopes() const { return version_ >= 6; }

  void allow_reading(const fs::path& path) { allow(path, kReading); }
  // But for making devices: one made in the scratch folder is the same terminal or disk.
  void allow_writing(const fs::path& path) { allow(path, kReading | writing_); }
  bool restrict_self() const { return syscall(SYS_landlock_restrict_self, rules_, 0) == 0; }

private:
  static constexpr std::uint64_t kReading =
      LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  static constexpr std::uint64_t kDevices =
      LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
  static constexpr std::uint64_t kAbstractSockets = 1, kSignals = 2;

  // In and below `path`. What cannot be opened stays forbidden; a link's target is allowed or not
  // where it is.
  void allow(const fs::path& path, std::uint64_t rights) {
    const Descriptor file(open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (file.get() < 0 || fstat(file.get(), &status) != 0 || S_ISLNK(status.st_mode)) {
      return;
    }
    landlock_path_beneath_attr rule{};
    rule.allowed_access = S_ISDIR(status.st_mode) ? rights : rights & of_files_;
    rule.parent_fd = file.get();
    syscall(SYS_landlock_add_rule, rules_, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  }

  long version_;
  long rules_ = -1;
  std::uint64_t writing_ = 0, of_files_ = 0;
};

// Whether `path` is one of the folders or holds one.
bool leads_to(const fs::path& path, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    const auto [end, unused] =
        std::mismatch(path.begin(), path.end(), folder.begin(), folder.end());
    if (end == path.end()) {
      return true;
    }
  }
  return false;
}

// Landlock only allows: all that does not lead to a hidden folder, from the root down.
void allow_reading_beside(Landlock& rules, const fs::path& folder,
                          const std::vector<fs::path>& hidden) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool is_hidden = std::find(hidden.begin(), hidden.end(), entry.path()) != hidden.end();
    if (!leads_to(entry.path(), hidden)) {
      rules.allow_reading(entry.path());
    } else if (!is_hidden && entry.is_directory(error)) {
      allow_reading_beside(rules, entry.path(), hidden);
    }
  }
}

// Devices that say nothing to others, and what CUDA computes on. No terminal and no disk.
bool is_of_use(const std::string& device, bool own_shared_memory) {
  constexpr std::array kUsual{"null", "zero", "full", "random", "urandom", "dri", "dxg"};
  return std::ranges::find(kUsual, device) != kUsual.end() || device.starts_with("nvidia") ||
         (device == "shm" && own_shared_memory);
}

bool restrict_files(Landlock& rules, const SandboxPlan& plan, bool own_shared_memory,
                    bool children_write_to_proc) {
  std::vector<fs::path> hidden;
  for (const fs::path& folder : plan.hidden) {
    std::error_code nothing_is_there; // behind a loop of links, say, where nobody can read either
    const fs::path canonical = fs::weakly_canonical(folder, nothing_is_there);
    hidden.push_back(nothing_is_there ? folder : canonical);
  }
  allow_reading_beside(rules, "/", hidden);
  std::error_code error;
  for (const auto& device : fs::directory_iterator("/dev", error)) {
    if (is_of_use(device.path().filename().string(), own_shared_memory)) {
      rules.allow_writing(device.path());
    }
  }
  rules.allow_writing(children_write_to_proc ? fs::path("/proc") : own_proc());
  rules.allow_writing(plan.scratch);
  return rules.restrict_self();
}

class Seccomp {
public:
  Seccomp() : filter_(seccomp_init(SCMP_ACT_ALLOW)) {}
  ~Seccomp() {
    if (filter_ != nullptr) {
      seccomp_release(filter_);
    }
  }
  Seccomp(const Seccomp&) = delete;
  Seccomp& operator=(const Seccomp&) = delete;

  // Calls that fail with EPERM, always or for one value of one argument, or of some of its bits.
  void forbid(int call) { add(SCMP_ACT_ERRNO(EPERM), call, {}); }
  void forbid(int call, unsigned argument, long value, std::uint32_t bits = 0xffffffffU) {
    add(SCMP_ACT_ERRNO(EPERM), call,
        {scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, bits, static_cast<std::uint32_t>(value)}});
  }
  // Calls that seem to succeed, and do nothing.
  void ignore(int call) { add(SCMP_ACT_ERRNO(0), call, {}); }
  // Sockets of all families but some.
  void forbid_families_but(const std::vector<int>& some) {
    for (const int call : {SCMP_SYS(socket), SCMP_SYS(socketpair)}) {
      for (int family = 0; family < AF_MAX; ++family) {
        if (std::ranges::find(some, family) == some.end()) {
          forbid(call, 0, family);
        }
      }
      add(SCMP_ACT_ERRNO(EPERM), call, {scmp_arg_cmp{0, SCMP_CMP_GE, AF_MAX, 0}});
    }
  }
  // Of netlink, what tells NCCL and Open MPI which devices their network has. For root there is
  // more: the kernel's log of audits, for one, is that of the whole machine.
  void forbid_netlink_but_routes() {
    add(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket),
        {scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, 0xffffffffU, AF_NETLINK},
         scmp_arg_cmp{2, SCMP_CMP_NE, NETLINK_ROUTE, 0}});
  }
  // Whose socket it is lies in memory, where no filter looks. So as if there were none: CUDA, which
  // asks for MPS, and the C library, which asks for nscd, find that on most machines, and go on.
  // What is sent on a pair of sockets names no address.
  void forbid_connections() {
    const std::uint32_t absent = SCMP_ACT_ERRNO(ENOENT);
    for (const int call : {SCMP_SYS(connect), SCMP_SYS(sendmsg), SCMP_SYS(sendmmsg)}) {
      add(absent, call, {});
    }
    add(absent, SCMP_SYS(sendto), {scmp_arg_cmp{4, SCMP_CMP_NE, 0, 0}});
  }
  // A call that the kernel seems not to know: its callers have another way.
  void hide(int call) { add(SCMP_ACT_ERRNO(ENOSYS), call, {}); }
  // A new process is a clone without the flag of a thread.
  void forbid_processes() {
    forbid(SCMP_SYS(fork));
    forbid(SCMP_SYS(vfork));
    hide(SCMP_SYS(clone3)); // its flags lie in memory, where no filter looks
    add(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone),
        {scmp_arg_cmp{0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0}});
  }
  // Of threads that there are already, too.
  void take_in_all_threads() {
    complete_ = complete_ && seccomp_attr_set(filter_, SCMP_FLTATR_CTL_TSYNC, 1) == 0;
  }
  bool load() { return filter_ != nullptr && complete_ && seccomp_load(filter_) == 0; }

private:
  void add(std::uint32_t action, int call, const std::vector<scmp_arg_cmp>& conditions) {
    const int result =
        seccomp_rule_add_array(filter_, action, call, static_cast<unsigned>(conditions.size()),
                               conditions.empty() ? nullptr : conditions.data());
    complete_ = complete_ && result == 0;
  }

  scmp_filter_ctx filter_;
  bool complete_ = true;
};

// The kernel sends signals for a descriptor to whoever is named its owner, too.
void forbid_owners_of_descriptors(Seccomp& filter) {
  for (const int command : {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_NOTIFY}) {
    filter.forbid(SCMP_SYS(fcntl), 1, command);
  }
  filter.forbid(SCMP_SYS(ioctl), 1, FIOSETOWN);
  filter.forbid(SCMP_SYS(ioctl), 1, SIOCSPGRP);
}

// Landlock leaves attributes of files alone, and their length up to version 2. Numbers are those of
// calls that the C library or libseccomp may not know yet.
void forbid_attributes(Seccomp& filter) {
  constexpr int kFchmodat2 = 452, kSetxattrat = 463, kRemovexattrat = 466, kFileSetattr = 469;
  for (const int call :
       {SCMP_SYS(truncate), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr),
        kSetxattrat, SCMP_SYS(removexattr), SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr),
        kRemovexattrat, kFileSetattr}) {
    filter.forbid(call);
  }
  // Python's shutil, linkers and Open MPI change these of their own files, and give up if they may
  // not. They seldom depend on the change.
  for (const int call :
       {SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), kFchmodat2, SCMP_SYS(chown),
        SCMP_SYS(fchown), SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(utime), SCMP_SYS(utimes),
        SCMP_SYS(utimensat), SCMP_SYS(futimesat)}) {
    filter.ignore(call);
  }
  // As <linux/fs.h> has them, which some versions of <sys/mount.h> cannot stand beside.
  constexpr std::size_t kSizeOfFsxattr = 28;
  constexpr unsigned long kSetFlags = _IOW('f', 2, long);
  constexpr unsigned long kFsSetXattr = _IOW('X', 32, char[kSizeOfFsxattr]);
  filter.forbid(SCMP_SYS(ioctl), 1, kSetFlags);
  filter.forbid(SCMP_SYS(ioctl), 1, kFsSetXattr);
}

void forbid_devices(Seccomp& filter) {
  for (const long kind : {S_IFCHR, S_IFBLK}) {
    filter.forbid(SCMP_SYS(mknod), 1, kind, S_IFMT);
    filter.forbid(SCMP_SYS(mknodat), 2, kind, S_IFMT);
  }
}

// Landlock keeps mounts where they are, but not from being copied without what covers them.
void forbid_mounts(Seccomp& filter) {
  constexpr int kOpenTree = 428, kMoveMount = 429, kFsopen = 430, kFsmount = 432, kFspick = 433,
                kMountSetattr = 442, kOpenTreeAttr = 467;
  for (const int call : {SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), kOpenTree,
                         kMoveMount, kFsopen, kFsmount, kFspick, kMountSetattr, kOpenTreeAttr}) {
    filter.forbid(call);
  }
}

bool restrict_calls(const SandboxPlan& plan, bool has_own_network) {
  Seccomp filter;
  std::vector<pid_t> protected_ids = plan.parent_threads;
  protected_ids.push_back(plan.parent);
  for (const pid_t id : protected_ids) {
    for (const int call :
         {SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(tgkill), SCMP_SYS(pidfd_open),
          SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(sched_setaffinity),
          SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_setparam), SCMP_SYS(sched_setattr),
          SCMP_SYS(prlimit64)}) {
      filter.forbid(call, 0, id);
    }
    filter.forbid(SCMP_SYS(setpriority), 1, id);
    filter.forbid(SCMP_SYS(ioprio_set), 1, id);
  }
  // Nor by way of its group, which might be joined.
  filter.forbid(SCMP_SYS(kill), 0, -1);
  filter.forbid(SCMP_SYS(kill), 0, -getpgid(plan.parent));
  filter.forbid(SCMP_SYS(setpgid), 1, getpgid(plan.parent));
  filter.forbid(SCMP_SYS(setpriority), 0, PRIO_PGRP);
  filter.forbid(SCMP_SYS(setpriority), 0, PRIO_USER);
  filter.forbid(SCMP_SYS(ioprio_set), 0, IOPRIO_WHO_PGRP);
  filter.forbid(SCMP_SYS(ioprio_set), 0, IOPRIO_WHO_USER);
  // What a terminal takes for typed by its user; reading it is enough for that.
  filter.forbid(SCMP_SYS(ioctl), 1, TIOCSTI);
  filter.forbid(SCMP_SYS(ioctl), 1, TIOCLINUX);
  for (const int call : {SCMP_SYS(pidfd_send_signal), SCMP_SYS(ptrace), SCMP_SYS(process_vm_writev),
                         SCMP_SYS(process_vm_readv)}) {
    filter.forbid(call);
  }
  forbid_owners_of_descriptors(filter);
  forbid_attributes(filter);
  forbid_devices(filter);
  forbid_mounts(filter);
  if (has_own_network) {
    filter.forbid_families_but({AF_UNIX, AF_INET, AF_INET6, AF_NETLINK});
    filter.forbid_netlink_but_routes();
  } else {
    filter.forbid_families_but({AF_UNIX});
  }
  if (!has_own_network && !plan.may_start_processes) {
    filter.forbid_connections(); // programs talk to what they start
  }
  filter.hide(SCMP_SYS(io_uring_setup)); // its requests pass no filter
  if (!plan.may_start_processes) {
    filter.forbid_processes();
  }
  return filter.load();
}

} // namespace

bool forbid_processes() {
  Seccomp filter;
  filter.take_in_all_threads();
  filter.forbid_processes();
  return filter.load();
}

std::vector<std::string> enter_sandbox(const SandboxPlan& plan) {
  std::vector<std::string> missing;
  const bool own_shared_memory = leave_shared_memory();
  if (!own_shared_memory) {
    missing.emplace_back("a namespace of mounts: /dev/shm cannot be written to");
  }
  if (own_shared_memory && (plan.may_start_processes || plan.own_network)) {
    cover_sockets(plan.scratch); // a network of its own lists other ones
  }
  const bool has_own_network = plan.own_network && enter_own_network();
  if (plan.own_network && !has_own_network) {
    missing.emplace_back("a network namespace: threads cannot talk over TCP");
  }
  const bool proc_is_kept = plan.children_write_to_proc && own_shared_memory && keep_proc();
  if (plan.children_write_to_proc && !proc_is_kept) {
    missing.emplace_back(
        "files below /proc that are read-only: children cannot write to their own");
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    missing.emplace_back("no new privileges");
  }
  Landlock rules;
  if (!rules.offered() || !restrict_files(rules, plan, own_shared_memory, proc_is_kept)) {
    missing.emplace_back("Landlock: files can be written to and read everywhere");
  } else if (!rules.has_scopes()) {
    const bool may_connect = plan.may_start_processes && !has_own_network;
    missing.emplace_back(
        std::string("Landlock's scopes: signals are kept from the parent alone") +
        (may_connect ? ", and programs may connect to sockets that have no file" : ""));
  }
  if (!restrict_calls(plan, has_own_network)) {
    missing.emplace_back("seccomp: other processes can be signalled and rescheduled");
  }
  return missing;
}

} // namespace clusterbench

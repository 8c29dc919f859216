// The sandbox: files, signals, memory and processes.
#include "tests/unit/sandboxed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <thread>
#include <unistd.h>
#include <utime.h>
#include <vector>

extern char** environ;

namespace clusterbench {
namespace {

bool reads(const fs::path& file) {
  std::string text;
  return static_cast<bool>(std::ifstream(file) >> text);
}

bool writes(const fs::path& file, std::ios::openmode mode = std::ios::app) {
  return static_cast<bool>(std::ofstream(file, mode) << "more" << std::flush);
}

bool starts_true(std::vector<const char*> arguments = {"true"}) {
  arguments.push_back(nullptr);
  pid_t pid = 0;
  if (posix_spawnp(&pid, arguments[0], nullptr, nullptr, const_cast<char* const*>(arguments.data()),
                   environ) != 0) {
    return false;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(Sandbox, WhatIsMissingIsSaidInWords) {
  std::istringstream lines(missing_);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("a namespace of mounts: ") || line == "no new privileges" ||
                line.starts_with("Landlock: ") || line.starts_with("Landlock's scopes: ") ||
                line.starts_with("seccomp: ") || line.starts_with("a network namespace: "))
        << line;
  }
}

TEST_F(Sandbox, GivesNoNewPrivileges) {
  SKIP_WITHOUT("no new privileges");
  EXPECT_TRUE(works([] { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1; }));
}

// ---- hidden folders

TEST_F(Sandbox, HiddenFoldersCannotBeRead) {
  SKIP_WITHOUT("Landlock: ");
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/hidden/secret"); }));
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/hidden/deeper/secret"); }));
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/open/../hidden/secret"); }));
  EXPECT_FALSE(works([&] {
    std::error_code error;
    fs::directory_iterator(top_ / "cache/hidden", error);
    return !error;
  }));
  fs::create_symlink(top_ / "cache" / "hidden", top_ / "link");
  EXPECT_FALSE(works([&] { return reads(top_ / "link/secret"); }));
  plan_.hidden = {top_ / "link"};
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/hidden/secret"); }));
}

TEST_F(Sandbox, SeveralFoldersAreHidden) {
  SKIP_WITHOUT("Landlock: ");
  plan_.hidden.push_back(top_ / "cache" / "open");
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/hidden/secret"); }));
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/open/file"); }));
  EXPECT_TRUE(works([&] { return reads(top_ / "cache/beside"); }));
}

TEST_F(Sandbox, AHiddenFolderNeedNotExistYet) {
  SKIP_WITHOUT("Landlock: ");
  plan_.hidden = {top_ / "cache" / "later" / "still"};
  const auto made = [&] {
    fs::create_directories(top_ / "cache/later/still");
    std::ofstream(top_ / "cache/later/still/secret") << "text";
  };
  EXPECT_FALSE(works([&] { return reads(top_ / "cache/later/still/secret"); }, made));
}

TEST_F(Sandbox, AllElseCanBeRead) {
  EXPECT_TRUE(works([&] { return reads(top_ / "beside") && reads(top_ / "cache/beside"); }));
  EXPECT_TRUE(works([&] { return reads(top_ / "cache/open/file"); }));
  EXPECT_TRUE(works([] { return reads("/proc/self/stat") && reads("/etc/passwd"); }));
}

// ---- files

TEST_F(Sandbox, NothingOutsideTheScratchFolderIsWrittenTo) {
  SKIP_WITHOUT("Landlock: ");
  const fs::path open = top_ / "cache" / "open", file = open / "file";
  std::error_code error;
  EXPECT_FALSE(works([&] { return writes(file); }));
  EXPECT_FALSE(works([&] { return writes(open / "new"); }));
  EXPECT_FALSE(works([&] { return writes(top_ / "cache/hidden/secret"); }));
  EXPECT_FALSE(works([&] { return fs::create_directory(open / "folder", error); }));
  EXPECT_FALSE(works([&] { return fs::remove(file, error); }));
  EXPECT_FALSE(works([&] { return fs::create_symlink(file, open / "link", error), !error; }));
  EXPECT_FALSE(works([&] { return fs::create_hard_link(file, open / "link", error), !error; }));
  EXPECT_FALSE(works([&] { return fs::rename(file, open / "other", error), !error; }));
  EXPECT_FALSE(works([&] { return fs::rename(file, plan_.scratch / "it", error), !error; }));
  EXPECT_FALSE(works([&] { return mkfifo((open / "fifo").c_str(), 0600) == 0; }));
  EXPECT_EQ(fs::file_size(file), 4U);
  EXPECT_EQ(std::distance(fs::directory_iterator(open), fs::directory_iterator()), 1);
}

TEST_F(Sandbox, NothingIsCutOffOrMarked) {
  SKIP_WITHOUT("seccomp");
  const std::string file = (top_ / "beside").string();
  EXPECT_FALSE(works([&] { return truncate(file.c_str(), 0) == 0; }));
  EXPECT_FALSE(works([&] { return setxattr(file.c_str(), "user.kept", "x", 1, 0) == 0; }));
  EXPECT_FALSE(works([&] { return lsetxattr(file.c_str(), "user.kept", "x", 1, 0) == 0; }));
  EXPECT_FALSE(works([&] {
    const int opened = open(file.c_str(), O_RDONLY);
    return fsetxattr(opened, "user.kept", "x", 1, 0) == 0;
  }));
  EXPECT_EQ(fs::file_size(file), 4U);
}

// Whoever changes them is told that it did: nothing of use depends on it, and much gives up else.
TEST_F(Sandbox, ModesOwnersAndTimesStay) {
  SKIP_WITHOUT("seccomp");
  constexpr long kFchmodat2 = 452;
  const fs::path path = top_ / "beside";
  const std::string name = path.string();
  const char* const file = name.c_str();
  const int opened = open(file, O_RDONLY);
  struct stat before {};
  ASSERT_EQ(stat(file, &before), 0);
  const uid_t other = 1234;
  const timespec times[2]{{1, 0}, {1, 0}};
  const timeval short_times[2]{{1, 0}, {1, 0}};
  const utimbuf seconds{1, 1};
  for (const Attempt& attempt : std::vector<Attempt>{
           [=] { return chmod(file, 0) == 0; }, [=] { return fchmod(opened, 0) == 0; },
           [=] { return fchmodat(AT_FDCWD, file, 0, 0) == 0; },
           [=] { return calls(kFchmodat2, AT_FDCWD, file, 0, AT_SYMLINK_NOFOLLOW); },
           [=] { return chown(file, other, other) == 0; },
           [=] { return lchown(file, other, other) == 0; },
           [=] { return fchown(opened, other, other) == 0; },
           [=] { return fchownat(AT_FDCWD, file, other, other, 0) == 0; },
           [=] { return utime(file, &seconds) == 0; },
           [=] { return utimes(file, short_times) == 0; },
           [=] { return futimens(opened, times) == 0; },
           [=] { return futimesat(AT_FDCWD, file, short_times) == 0; },
           [=] { return utimensat(AT_FDCWD, file, times, AT_SYMLINK_NOFOLLOW) == 0; }}) {
    EXPECT_TRUE(works(attempt));
    struct stat after {};
    ASSERT_EQ(stat(file, &after), 0);
    EXPECT_EQ(after.st_mode, before.st_mode);
    EXPECT_EQ(after.st_uid, before.st_uid);
    EXPECT_EQ(after.st_gid, before.st_gid);
    EXPECT_EQ(after.st_mtime, before.st_mtime);
  }
  plan_.may_start_processes = true;
  EXPECT_TRUE(works([=] { return starts_true({"chmod", "0", file}); }));
  EXPECT_TRUE(works([=] { return starts_true({"touch", "-d", "1970-01-02", file}); }));
  struct stat after {};
  ASSERT_EQ(stat(file, &after), 0);
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_EQ(after.st_mtime, before.st_mtime);
  close(opened);
}

TEST_F(Sandbox, NothingBecomesImmutableAndNoMarkIsTaken) {
  SKIP_WITHOUT("seccomp");
  constexpr long kSetxattrat = 463, kRemovexattrat = 466, kFileSetattr = 469;
  constexpr unsigned long kSetFlags = _IOW('f', 2, long), kFsSetXattr = _IOW('X', 32, char[28]);
  fs::create_directory(plan_.scratch / "folder");
  for (const fs::path& path : {top_ / "beside", plan_.scratch / "folder"}) {
    const std::string name = path.string();
    const char* const file = name.c_str();
    const int opened = open(file, O_RDONLY);
    long flags[4] = {};
    for (const Attempt& attempt : std::vector<Attempt>{
             [&] { return is_forbidden(ioctl(opened, kSetFlags, flags)); },
             [&] { return is_forbidden(ioctl(opened, kFsSetXattr, flags)); },
             [=] { return is_forbidden(removexattr(file, "user.kept")); },
             [=] { return is_forbidden(lremovexattr(file, "user.kept")); },
             [=] { return is_forbidden(fremovexattr(opened, "user.kept")); },
             [=] { return is_forbidden(syscall(kSetxattrat, opened, "", 0, "", 0, 0)); },
             [=] { return is_forbidden(syscall(kRemovexattrat, opened, "", 0, "")); },
             [=] { return is_forbidden(syscall(kFileSetattr, opened, "", 0, 0, 0)); }}) {
      EXPECT_TRUE(works(attempt));
    }
    close(opened);
  }
}

// The numbers 0, 0 are those of a device that everybody may make.
TEST_F(Sandbox, NoDevicesAreMade) {
  SKIP_WITHOUT("seccomp");
  const std::string name = (plan_.scratch / "made").string();
  const char* const made = name.c_str();
  for (const dev_t device : {makedev(0, 0), makedev(1, 3), makedev(5, 1)}) {
    EXPECT_FALSE(works([=] { return calls(SYS_mknod, made, S_IFCHR | 0600, device); }));
    EXPECT_FALSE(works([=] { return calls(SYS_mknod, made, S_IFBLK | 0600, device); }));
    EXPECT_FALSE(works([=] { return mknodat(AT_FDCWD, made, S_IFCHR | 0600, device) == 0; }));
    EXPECT_FALSE(works([=] { return mknodat(AT_FDCWD, made, S_IFBLK | 0600, device) == 0; }));
  }
  EXPECT_FALSE(fs::exists(made));
  EXPECT_TRUE(works([=] { return mknod(made, S_IFREG | 0600, 0) == 0 && unlink(made) == 0; }));
  EXPECT_TRUE(works([=] { return mkfifo(made, 0600) == 0 && unlink(made) == 0; }));
}

// Else a copy of a folder would show what is covered there.
TEST_F(Sandbox, MountsAreAsTheyAre) {
  SKIP_WITHOUT("seccomp");
  constexpr long kOpenTree = 428, kMountSetattr = 442, kCopy = 1;
  const std::string name = top_.string();
  const char* const folder = name.c_str();
  EXPECT_TRUE(works([=] { return is_forbidden(syscall(kOpenTree, AT_FDCWD, folder, kCopy)); }));
  EXPECT_TRUE(works([=] { return is_forbidden(mount(folder, folder, "", MS_BIND, nullptr)); }));
  EXPECT_TRUE(works([=] { return is_forbidden(umount2("/dev/shm", MNT_DETACH)); }));
  std::uint64_t attributes[4] = {};
  EXPECT_TRUE(works([&] {
    return is_forbidden(syscall(kMountSetattr, AT_FDCWD, folder, 0, attributes, sizeof attributes));
  }));
}

TEST_F(Sandbox, TheScratchFolderIsFree) {
  EXPECT_TRUE(works([&] {
    const fs::path scratch = plan_.scratch;
    fs::create_directories(scratch / "folder" / "deeper");
    bool well = writes(scratch / "new") && reads(scratch / "new");
    fs::rename(scratch / "new", scratch / "folder" / "deeper" / "new");
    fs::create_symlink("folder", scratch / "link");
    well = well && reads(scratch / "link" / "deeper" / "new");
    return well && fs::remove_all(scratch / "folder") == 3;
  }));
}

TEST_F(Sandbox, DevicesAndTheProcessItselfAreOpen) {
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/urandom"}) {
    EXPECT_TRUE(works([=] { return writes(device); })) << device;
  }
  EXPECT_TRUE(works([] { return writes("/proc/self/comm", std::ios::out); })); // its own name
}

class Terminal {
public:
  Terminal() {
    if (grantpt(master_) == 0 && unlockpt(master_) == 0 && ptsname(master_) != nullptr) {
      name_ = ptsname(master_);
    }
  }
  ~Terminal() { close(master_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  const std::string& name() const { return name_; } ///< empty where there is none

private:
  int master_ = posix_openpt(O_RDWR | O_NOCTTY);
  std::string name_;
};

TEST_F(Sandbox, TerminalsAreNotWrittenTo) {
  SKIP_WITHOUT("Landlock: ");
  const Terminal terminal;
  const auto opens = [&] { return open(terminal.name().c_str(), O_WRONLY | O_NOCTTY) >= 0; };
  if (!opens()) {
    GTEST_SKIP() << "no terminals here";
  }
  EXPECT_FALSE(works(opens));
}

TEST_F(Sandbox, NothingIsTypedIntoATerminal) {
  SKIP_WITHOUT("seccomp");
  const Terminal terminal;
  const int opened = open(terminal.name().c_str(), O_RDWR | O_NOCTTY);
  if (opened < 0) {
    GTEST_SKIP() << "no terminals here";
  }
  const std::uint64_t with_other_bits = 1ULL << 32 | TIOCSTI; // the kernel looks at half of it
  EXPECT_FALSE(works([&] { return ioctl(opened, TIOCSTI, "x") == 0; }));
  EXPECT_FALSE(works([&] { return calls(SYS_ioctl, opened, with_other_bits, "x"); }));
  char subcode = 0;
  EXPECT_FALSE(works([&] { return ioctl(opened, TIOCLINUX, &subcode) == 0 || errno != EPERM; }));
  close(opened);
}

// Memory that it inherits is opened anew by its path.
TEST_F(Sandbox, SharedMemoryIsOpenedByItsDescriptor) {
  const int memory = memfd_create("shared", 0);
  ASSERT_EQ(ftruncate(memory, 4096), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(memory);
  EXPECT_TRUE(works([&] { return writes(path); }));
  EXPECT_GT(lseek(memory, 0, SEEK_END), 4096);
  close(memory);
}

TEST_F(Sandbox, WhatLiesInSharedMemoryIsOfNoOther) {
  const std::string file = "/dev/shm/clusterbench-test-" + std::to_string(getpid());
  std::ofstream(file) << "text";
  if (!lacks("a namespace of mounts")) {
    EXPECT_FALSE(works([&] { return fs::exists(file); }));
    EXPECT_TRUE(works([&] { return writes(file + "-ours") && reads(file + "-ours"); }));
  } else if (!lacks("Landlock: ")) {
    EXPECT_FALSE(works([&] { return writes(file) || writes(file + "-ours"); }));
  }
  EXPECT_FALSE(fs::exists(file + "-ours"));
  EXPECT_TRUE(reads(file));
  fs::remove(file);
}

TEST_F(Sandbox, SystemVMemoryIsPrivate) {
  SKIP_WITHOUT("a namespace of mounts");
  const key_t key = 0x0c1b0000 + getpid() % 0xffff;
  const int segment = shmget(key, 4096, IPC_CREAT | 0600);
  ASSERT_GE(segment, 0);
  EXPECT_FALSE(works([&] { return shmget(key, 0, 0) >= 0; }));
  shmctl(segment, IPC_RMID, nullptr);
}

// ---- other processes

TEST_F(Sandbox, TheParentGetsNoSignals) {
  SKIP_WITHOUT("seccomp");
  const pid_t parent = getpid();
  siginfo_t info{};
  info.si_signo = SIGUSR1;
  info.si_code = SI_QUEUE;
  const long with_other_bits = (1L << 32) | parent; // the kernel looks at half of it
  for (const Attempt& attempt : std::vector<Attempt>{
           [=] { return kill(parent, 0) == 0; },
           [=] { return calls(SYS_kill, with_other_bits, 0L); }, [=] { return kill(-1, 0) == 0; },
           [=] { return kill(-getpgid(parent), 0) == 0; },
           [=] { return calls(SYS_tkill, parent, 0); },
           [=] { return calls(SYS_tgkill, parent, parent, 0); },
           [=] { return calls(SYS_rt_sigqueueinfo, parent, 0, &info); },
           [=] { return calls(SYS_rt_tgsigqueueinfo, parent, parent, 0, &info); },
           [=] { return calls(SYS_pidfd_open, parent, 0); },
           // By way of its folder, which can be opened.
           [=] {
             const std::string folder = "/proc/" + std::to_string(parent);
             const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
             return opened >= 0 && calls(SYS_pidfd_send_signal, opened, 0, nullptr, 0);
           },
           // By way of its group.
           [=] { return setpgid(0, getpgid(parent)) == 0 && getpgrp() == getpgid(parent); }}) {
    EXPECT_FALSE(works([&] { return setpgid(0, 0) == 0 && attempt(); }));
  }
}

TEST_F(Sandbox, TheKernelSendsTheParentNoneForADescriptor) {
  SKIP_WITHOUT("seccomp");
  const pid_t parent = getpid();
  int pipe_ends[2], sockets[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  const int reading = pipe_ends[0], socket = sockets[0];
  const f_owner_ex owner{F_OWNER_PID, parent};
  const std::uint64_t with_other_bits = 1ULL << 32 | F_SETOWN; // the kernel looks at half of it
  const std::string folder = top_.string();
  for (const Attempt& attempt : std::vector<Attempt>{
           [=] { return fcntl(reading, F_SETOWN, parent) == 0; },
           [=] { return calls(SYS_fcntl, reading, with_other_bits, parent); },
           [=] { return fcntl(reading, F_SETOWN, -getpgid(parent)) == 0; },
           [&] { return fcntl(reading, F_SETOWN_EX, &owner) == 0; },
           [=] { return fcntl(reading, F_SETSIG, SIGKILL) == 0; },
           [=] { return ioctl(socket, FIOSETOWN, &parent) == 0; },
           [=] { return ioctl(socket, SIOCSPGRP, &parent) == 0; },
           [&] { return fcntl(open(folder.c_str(), O_RDONLY), F_NOTIFY, DN_CREATE) == 0; }}) {
    EXPECT_FALSE(works(attempt));
    plan_.may_start_processes = !plan_.may_start_processes;
  }
  EXPECT_TRUE(works([=] { return fcntl(reading, F_SETFL, O_NONBLOCK) == 0; }));
  for (const int end : {pipe_ends[0], pipe_ends[1], sockets[0], sockets[1]}) {
    close(end);
  }
}

TEST_F(Sandbox, ThreadsOfTheParentGetNoneEither) {
  SKIP_WITHOUT("seccomp");
  pid_t other = 0;
  std::atomic<bool> known = false, done = false;
  std::thread thread([&] {
    other = gettid();
    known = true;
    while (!done) {
      usleep(1000);
    }
  });
  while (!known) {
    usleep(1000);
  }
  plan_.parent_threads.push_back(other);
  EXPECT_FALSE(works([&] { return calls(SYS_tkill, other, 0); }));
  EXPECT_FALSE(works([&] { return calls(SYS_tgkill, getppid(), other, 0); }));
  EXPECT_FALSE(works([&] {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 &&
           sched_setaffinity(other, sizeof set, &set) == 0;
  }));
  done = true;
  thread.join();
}

TEST_F(Sandbox, NobodyOutsideGetsSignals) {
  SKIP_WITHOUT("Landlock: ");
  SKIP_WITHOUT("Landlock's scopes");
  const pid_t bystander = fork();
  if (bystander == 0) {
    for (;;) {
      pause();
    }
  }
  EXPECT_FALSE(works([&] { return kill(bystander, 0) == 0; }));
  EXPECT_EQ(kill(bystander, 0), 0);
  kill(bystander, SIGKILL);
  waitpid(bystander, nullptr, 0);
}

TEST_F(Sandbox, ItsOwnSignalsAreItsOwn) {
  EXPECT_TRUE(works([] { return kill(getpid(), 0) == 0 && raise(0) == 0; }));
  EXPECT_TRUE(works([] { return calls(SYS_tgkill, getpid(), gettid(), 0); }));
}

TEST_F(Sandbox, TheParentKeepsItsScheduling) {
  SKIP_WITHOUT("seccomp");
  const pid_t parent = getpid();
  const int nice = getpriority(PRIO_PROCESS, 0);
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  sched_param parameter{};
  std::uint64_t attributes[7] = {sizeof attributes, 0, 0, 0, 0, 0, 0};
  const rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  constexpr int kOfProcess = 1, kOfGroup = 2, kOfUser = 3, kBestEffort = 2 << 13 | 7;
  for (const Attempt& attempt : std::vector<Attempt>{
           [=] { return setpriority(PRIO_PROCESS, static_cast<id_t>(parent), 19) == 0; },
           [=] { return setpriority(PRIO_PGRP, static_cast<id_t>(getpgid(parent)), 19) == 0; },
           [=] { return setpriority(PRIO_USER, getuid(), 19) == 0; },
           [=] { return sched_setaffinity(parent, sizeof set, &set) == 0; },
           [=] { return sched_setscheduler(parent, SCHED_BATCH, &parameter) == 0; },
           [=] { return sched_setparam(parent, &parameter) == 0; },
           [=] { return calls(SYS_sched_setattr, parent, attributes, 0); },
           [=] { return prlimit(parent, RLIMIT_NICE, &limit, nullptr) == 0; },
           [=] { return calls(SYS_ioprio_set, kOfProcess, parent, kBestEffort); },
           [=] { return calls(SYS_ioprio_set, kOfGroup, getpgid(parent), kBestEffort); },
           [=] { return calls(SYS_ioprio_set, kOfUser, getuid(), kBestEffort); }}) {
    EXPECT_FALSE(works(attempt));
  }
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), nice);
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
}

TEST_F(Sandbox, ItsOwnSchedulingIsItsOwn) {
  EXPECT_TRUE(works([] {
    cpu_set_t set;
    const rlimit none{0, 0};
    return sched_getaffinity(0, sizeof set, &set) == 0 &&
           sched_setaffinity(0, sizeof set, &set) == 0 && setpriority(PRIO_PROCESS, 0, 19) == 0 &&
           setrlimit(RLIMIT_CORE, &none) == 0;
  }));
}

TEST_F(Sandbox, TheParentsMemoryIsOutOfReach) {
  const pid_t parent = getpid();
  const auto opens_memory_of = [](pid_t process) {
    return std::ifstream("/proc/" + std::to_string(process) + "/mem").good();
  };
  EXPECT_TRUE(works([&] { return opens_memory_of(getpid()); }));
  if (!lacks("Landlock: ")) {
    EXPECT_FALSE(works([&] { return opens_memory_of(parent); }));
  }
  SKIP_WITHOUT("seccomp");
  long secret = 7;
  EXPECT_FALSE(works([&] {
    long copy = 0;
    const iovec here{&copy, sizeof copy}, there{&secret, sizeof secret};
    return process_vm_readv(parent, &here, 1, &there, 1, 0) > 0 ||
           process_vm_writev(parent, &here, 1, &there, 1, 0) > 0;
  }));
  EXPECT_FALSE(works([&] { return ptrace(PTRACE_ATTACH, parent, nullptr, nullptr) == 0; }));
  EXPECT_EQ(secret, 7);
}

// ---- new processes, and the network

TEST_F(Sandbox, AModuleHasThreadsAndNoProcesses) {
  SKIP_WITHOUT("seccomp");
  const auto ends = [](pid_t child) { // in the child, if there is one
    if (child == 0) {
      _exit(0);
    }
    return child > 0;
  };
  EXPECT_FALSE(works([&] { return ends(fork()); }));
  EXPECT_FALSE(works([&] { return ends(static_cast<pid_t>(syscall(SYS_fork))); }));
  EXPECT_FALSE(works([] { return starts_true(); }));
  EXPECT_FALSE(works([] { return std::system("true") == 0; }));
  EXPECT_TRUE(works([] {
    int value = 0;
    std::thread([&] { value = 1; }).join();
    return value == 1;
  }));
}

TEST_F(Sandbox, AProgramMayStartOthersAndTheyAreInTheSandbox) {
  plan_.may_start_processes = true;
  EXPECT_TRUE(works([] { return starts_true(); }));
  EXPECT_TRUE(works([] { return starts_true({"sh", "-c", "sleep 10 & kill $! && ! wait $!"}); }));
  const std::string signals = "kill -0 " + std::to_string(getpid());
  if (!lacks("seccomp")) {
    EXPECT_FALSE(works([&] { return starts_true({"sh", "-c", signals.c_str()}); }));
  }
  if (!lacks("Landlock: ")) {
    const std::string file = (top_ / "beside").string();
    EXPECT_FALSE(works([&] { return starts_true({"cp", "/dev/null", file.c_str()}); }));
    const std::string secret = (top_ / "cache/hidden/secret").string();
    EXPECT_FALSE(works([&] { return starts_true({"cat", secret.c_str()}); }));
    EXPECT_TRUE(reads(file));
  }
}

// ---- children that write below /proc

bool opens_for_writing(const fs::path& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  close(file);
  return file >= 0;
}

// Of a child of the confined process.
bool child_works(const std::function<bool()>& attempt) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(attempt() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

TEST_F(Sandbox, AChildWritesToItsOwnProcOnlyIfThePlanSaysSo) {
  SKIP_WITHOUT("Landlock: ");
  SKIP_WITHOUT("a namespace of mounts");
  const fs::path own = "/proc/self/comm";
  plan_.may_start_processes = true;
  EXPECT_FALSE(works([&] { return child_works([&] { return opens_for_writing(own); }); }));
  plan_.children_write_to_proc = true;
  works([] { return true; });
  SKIP_WITHOUT("files below /proc");
  EXPECT_TRUE(works([&] { return child_works([&] { return opens_for_writing(own); }); }));
}

TEST_F(Sandbox, AChildThatWritesToItsOwnProcGainsNothingElse) {
  SKIP_WITHOUT("Landlock: ");
  SKIP_WITHOUT("a namespace of mounts");
  plan_.may_start_processes = true;
  plan_.children_write_to_proc = true;
  works([] { return true; });
  SKIP_WITHOUT("files below /proc");
  const fs::path of_harness = fs::path("/proc") / std::to_string(getpid());
  for (const fs::path& forbidden : {of_harness / "oom_score_adj", fs::path("/proc/1/oom_score_adj"),
                                    fs::path("/proc/sys/kernel/hostname"),
                                    fs::path("/proc/sysrq-trigger"), top_ / "cache" / "beside"}) {
    EXPECT_FALSE(works([&] { return child_works([&] { return opens_for_writing(forbidden); }); }))
        << forbidden;
  }
  EXPECT_FALSE(
      works([&] { return child_works([&] { return reads(top_ / "cache/hidden/secret"); }); }));
  EXPECT_TRUE(works([&] { return child_works([&] { return writes(plan_.scratch / "new"); }); }));
}

} // namespace
} // namespace clusterbench

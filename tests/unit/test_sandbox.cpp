// The sandbox is tried in processes of their own: whoever is in it stays in it.
#include "harness/system/sandbox.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <netinet/in.h>
#include <sched.h>
#include <spawn.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace clusterbench {
namespace {

namespace fs = std::filesystem;
using Attempt = std::function<bool()>;

bool reads(const fs::path& file) {
  std::string text;
  return static_cast<bool>(std::ifstream(file) >> text);
}

bool writes(const fs::path& file, std::ios::openmode mode = std::ios::app) {
  return static_cast<bool>(std::ofstream(file, mode) << "more" << std::flush);
}

template <typename... Arguments>
bool calls(long number, Arguments... arguments) {
  return syscall(number, arguments...) >= 0;
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

#define SKIP_WITHOUT(what)                                                                         \
  if (lacks(what))                                                                                 \
  GTEST_SKIP() << "this kernel does not offer " << what

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

TEST_F(Sandbox, ThereIsNoNetwork) {
  SKIP_WITHOUT("seccomp");
  EXPECT_FALSE(works([] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }));
  EXPECT_FALSE(works([] { return socket(AF_INET, SOCK_DGRAM, 0) >= 0; }));
  EXPECT_FALSE(works([] { return socket(AF_INET6, SOCK_STREAM, 0) >= 0; }));
  EXPECT_FALSE(works([] { return calls(SYS_socket, (1L << 32) | AF_INET, SOCK_STREAM, 0); }));
  // A ring of requests could ask for a socket where no filter looks.
  EXPECT_FALSE(works([] {
    std::uint64_t parameters[15] = {};
    return calls(SYS_io_uring_setup, 4, parameters);
  }));
  EXPECT_TRUE(works([] { // what libraries talk to themselves with
    int ends[2];
    return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0;
  }));
}

// A listener on the loopback device of its own, and one of ours that it does not reach.
TEST_F(Sandbox, ANetworkOfItsOwn) {
  const auto listener = [](sockaddr_in& address) {
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    address = {
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    return bind(listening, general, size) == 0 && listen(listening, 1) == 0 &&
           getsockname(listening, general, &size) == 0;
  };
  const auto reaches = [](const sockaddr_in& address) {
    const int calling = socket(AF_INET, SOCK_STREAM, 0);
    return connect(calling, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  };
  sockaddr_in ours{};
  ASSERT_TRUE(listener(ours));
  ASSERT_TRUE(reaches(ours));
  plan_.own_network = true;
  works([] { return true; });
  SKIP_WITHOUT("a network namespace");
  EXPECT_TRUE(works([&] {
    sockaddr_in own{};
    return listener(own) && reaches(own);
  }));
  EXPECT_FALSE(works([&] { return reaches(ours); }));
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

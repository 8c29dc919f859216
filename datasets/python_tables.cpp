// Files that a Python program reads, with a module of its own: HDF5 (datasets/hdf5_to_npy.py), and
// Parquet and Arrow (datasets/arrow_to_npy.py).
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "datasets/readers.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace clusterbench::datasets {

extern const char* const kHdf5ToNpy; // the programs
extern const char* const kArrowToNpy;

namespace {

constexpr int kModuleMissing = 3; // of the programs
constexpr int kNotFound = 127;

/// A file in memory that only this process and its children see.
class MemoryFile {
public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {
    if (fd_ < 0)
      throw OutOfMemory(fmt::format("no memory for a file: {}", std::strerror(errno)));
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }
  /// Its first bytes, without white space at the end.
  std::string text() const {
    std::string content(4096, '\0');
    const ssize_t size = pread(fd_, content.data(), content.size(), 0);
    content.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return content.substr(0, content.find_last_not_of(" \n") + 1);
  }

private:
  int fd_;
};

/// Runs a command, found on the PATH, with its output in two files. Returns its exit code: 127 if
/// it cannot be started, 128 + N if signal N has ended it.
int run(const std::vector<std::string>& command, const MemoryFile& output,
        const MemoryFile& errors) {
  std::vector<char*> arguments;
  for (const std::string& word : command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.fd(), STDERR_FILENO);
  pid_t child = 0;
  const int failure =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0)
    return kNotFound;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The interpreters to try. A python3 that comes first on the PATH need not be the one that the
/// machine's packages are installed for.
std::vector<std::string> interpreters() {
  std::vector<std::string> commands = {"python3", "/usr/bin/python3"};
  if (const char* own = std::getenv("CLUSTERBENCH_PYTHON"); own != nullptr && *own != '\0')
    commands.insert(commands.begin(), own);
  return commands;
}

/// Reads a part of a file by a program. needs: its module, and what the module reads; install: how
/// it is had.
Array read_by(const char* program, const std::filesystem::path& path, const std::string& table,
              const char* needs, const char* install) {
  const std::string name = table.empty() ? path.string() : path.string() + '#' + table;
  if (access(path.c_str(), R_OK) != 0)
    throw InputError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  for (const std::string& python : interpreters()) {
    const MemoryFile points("points"), errors("errors");
    const int code = run({python, "-c", program, path.string(), table}, points, errors);
    if (code == kNotFound || code == kModuleMissing)
      continue;
    if (code > 128)
      throw InputError(
          fmt::format("{}: signal {} ended its reader: the file is damaged, or there is no "
                      "memory for it",
                      name, code - 128));
    if (code != 0)
      throw InputError(fmt::format("{}: {}", name, errors.text()));
    return read_npy(points.path());
  }
  throw InputError(fmt::format("{}: a Python with {}, and none of {} has it ({})", name, needs,
                               fmt::join(interpreters(), ", "), install));
}

} // namespace

Array read_hdf5(const std::filesystem::path& path, const std::string& table) {
  return read_by(kHdf5ToNpy, path, table, "h5py reads HDF5", "apt-get install python3-h5py");
}

Array read_arrow(const std::filesystem::path& path, const std::string& columns) {
  return read_by(kArrowToNpy, path, columns, "pyarrow reads Parquet and Arrow",
                 "pip install pyarrow: Debian has no package; or convert the file to .npy");
}

} // namespace clusterbench::datasets

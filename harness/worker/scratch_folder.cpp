#include "harness/worker/scratch_folder.hpp"

#include "harness/system/program_folder.hpp"
#include "harness/worker/replies.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "clusterbench-scratch-";

// A descriptor that holds the lock on a folder, or -1 where another one does.
int lock_folder(const fs::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor);
    return -1;
  }
  return descriptor;
}

bool is_mine_and_old(const fs::path& folder) {
  constexpr std::time_t kSeconds = 60; // between the making of a folder and its lock is less
  struct stat about {};
  return lstat(folder.c_str(), &about) == 0 && S_ISDIR(about.st_mode) &&
         about.st_uid == geteuid() && about.st_mtime + kSeconds < std::time(nullptr);
}

} // namespace

void remove_abandoned_scratch_folders(const fs::path& among) {
  std::error_code nothing_to_be_done;
  for (const auto& entry : fs::directory_iterator(among, nothing_to_be_done)) {
    const fs::path& path = entry.path();
    if (!path.filename().string().starts_with(kPrefix) || !is_mine_and_old(path)) {
      continue;
    }
    if (const int descriptor = lock_folder(path); descriptor >= 0) {
      fs::remove_all(path, nothing_to_be_done);
      close(descriptor);
    }
  }
}

ScratchFolder::ScratchFolder() {
  std::error_code no_folder; // TMPDIR names none: as other programs do, take /tmp
  const fs::path named = fs::temp_directory_path(no_folder);
  const fs::path folder = no_folder ? "/tmp" : named;
  static const bool once = (remove_abandoned_scratch_folders(folder), true);
  static_cast<void>(once);
  std::string path = (folder / fmt::format("{}XXXXXX", kPrefix)).string();
  if (mkdtemp(path.data()) == nullptr) {
    throw WorkerFailure("error", fmt::format("cannot make a scratch folder in {}: {}",
                                             folder.string(), std::strerror(errno)));
  }
  path_ = path;
  lock_ = lock_folder(path_);
}

void ScratchFolder::remove() {
  if (!path_.empty()) {
    std::error_code nothing_to_be_done;
    fs::remove_all(path_, nothing_to_be_done);
    path_.clear();
  }
  if (lock_ >= 0) {
    close(lock_);
    lock_ = -1;
  }
}

std::vector<std::string> confined_environment(std::vector<std::string> more, int threads, int gpus,
                                              const std::filesystem::path& scratch) {
  const auto set = [&](const char* name, const std::string& value) {
    more.push_back(fmt::format("{}={}", name, value));
  };
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                           "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"}) {
    set(name, std::to_string(threads));
  }
  for (const char* name : {"HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR",
                           "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH"}) {
    set(name, scratch.string());
  }
  set("PYTHONDONTWRITEBYTECODE", "1");
  const char* const before = std::getenv("PYTHONPATH");
  const std::string helper = (program_folder() / "python").string();
  set("PYTHONPATH",
      before != nullptr && *before != 0 ? fmt::format("{}:{}", before, helper) : helper);
  if (gpus > 1) { // kernels that wait for one another must not wait for one that is loaded
    set("CUDA_MODULE_LOADING", "EAGER");
  }
  return more;
}

} // namespace clusterbench

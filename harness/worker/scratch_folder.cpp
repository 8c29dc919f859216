#include "harness/worker/scratch_folder.hpp"

#include "harness/system/messages.hpp"
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

// Folders that whoever made them has closed, to their owner too: they cannot be emptied.
void open_folders(const fs::path& top) {
  std::error_code nothing_to_be_done;
  chmod(top.c_str(), S_IRWXU);
  for (fs::recursive_directory_iterator entry(top, nothing_to_be_done), end;
       !nothing_to_be_done && entry != end; entry.increment(nothing_to_be_done)) {
    std::error_code is_gone;
    if (fs::is_directory(entry->symlink_status(is_gone))) {
      chmod(entry->path().c_str(), S_IRWXU); // before the iterator steps into it
    }
  }
}

std::error_code remove_with_all(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) {
    open_folders(folder);
    fs::remove_all(folder, error);
  }
  return error;
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
      static_cast<void>(remove_with_all(path)); // who left it behind is not here to be told
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
    if (const std::error_code error = remove_with_all(path_)) {
      say("cannot remove the scratch folder {}: {}\n", path_.string(), error.message());
    }
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

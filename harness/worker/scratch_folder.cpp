#include "harness/worker/scratch_folder.hpp"

#include "harness/system/program_folder.hpp"
#include "harness/worker/replies.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <system_error>

namespace clusterbench {

ScratchFolder::ScratchFolder() {
  std::error_code no_folder; // TMPDIR names none: as other programs do, take /tmp
  const std::filesystem::path named = std::filesystem::temp_directory_path(no_folder);
  const std::filesystem::path folder = no_folder ? "/tmp" : named;
  std::string path = (folder / "clusterbench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    throw WorkerFailure("error", fmt::format("cannot make a scratch folder in {}: {}",
                                             folder.string(), std::strerror(errno)));
  }
  path_ = path;
}

void ScratchFolder::remove() {
  if (!path_.empty()) {
    std::error_code nothing_to_be_done;
    std::filesystem::remove_all(path_, nothing_to_be_done);
    path_.clear();
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

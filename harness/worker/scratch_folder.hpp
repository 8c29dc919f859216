// The one folder that a confined process may write to, and what tells its libraries so.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace clusterbench {

/// Removes the scratch folders in that folder which a program left behind that was killed: a living
/// one holds a lock on each of its own.
void remove_abandoned_scratch_folders(const std::filesystem::path& among);

/// A new folder among the temporary ones; it is gone with this object, with all that is in it. The
/// first one of a process removes abandoned ones beside it.
class ScratchFolder {
public:
  /// Throws WorkerFailure.
  ScratchFolder();
  ~ScratchFolder() { remove(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void remove();

private:
  std::filesystem::path path_;
  int lock_ = -1; ///< descriptor of the folder, locked; -1 where that file system has no locks
};

/// NAME=value for a process that runs a variant: `more`; how many threads libraries are to use; the
/// scratch folder as home and for every cache, so that nothing outlives the process; and where
/// Python programs find clusterbench_peer.
std::vector<std::string> confined_environment(std::vector<std::string> more, int threads, int gpus,
                                              const std::filesystem::path& scratch);

} // namespace clusterbench

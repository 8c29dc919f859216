#include "datasets/output_file.hpp"

#include "datasets/errors.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace clusterbench::datasets {
namespace {

std::atomic<const char*> g_unfinished = nullptr;

} // namespace

void OutputFile::remove_unfinished() noexcept {
  if (const char* const name = g_unfinished; name != nullptr)
    ::unlink(name);
}

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored; // a path that cannot be looked at fails below, in open
  if (std::filesystem::is_symlink(path_, ignored)) {
    // Renaming over a link would replace the link; write to what it points to.
    const auto target = std::filesystem::weakly_canonical(path_, ignored);
    if (!ignored)
      path_ = target;
  }
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::is_directory(status)) {
    errno = EISDIR;
    fail("cannot write");
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0 && errno == ENXIO && std::filesystem::is_fifo(status))
      throw OutputError(
          fmt::format("{}: no process reads this pipe; start its reader first", path_.string()));
    if (descriptor_ >= 0) // a full pipe is waited for
      ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
  } else {
    temporary_ = path_;
    temporary_ += fmt::format(".{}-{:08x}.tmp", ::getpid(), std::random_device{}());
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (descriptor_ < 0) {
    temporary_.clear();
    fail("cannot create");
  }
  if (!temporary_.empty())
    g_unfinished = temporary_.c_str();
}

OutputFile::~OutputFile() {
  g_unfinished = nullptr;
  if (descriptor_ >= 0)
    ::close(descriptor_);
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30; // Linux writes at most 2 GiB a call
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      fail("cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::close_whole() {
  // Some disks report that they are full only here. Devices and pipes have nothing to flush.
  if (!temporary_.empty() && ::fsync(descriptor_) != 0)
    fail("cannot flush");
  if (::close(std::exchange(descriptor_, -1)) != 0)
    fail("cannot close");
}

void OutputFile::commit() {
  close_whole();
  if (temporary_.empty())
    return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("cannot rename the finished file to");
  g_unfinished = nullptr;
  temporary_.clear();
}

void OutputFile::commit_new() {
  close_whole();
  if (temporary_.empty()) {
    errno = EEXIST; // a device, say
    fail("cannot create");
  }
  // Not every file system knows how to rename without replacing, or how to link.
  const bool renamed =
      ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0;
  if (!renamed && (errno != EINVAL || ::link(temporary_.c_str(), path_.c_str()) != 0))
    fail("cannot create");
  if (!renamed)
    ::unlink(temporary_.c_str());
  temporary_.clear();
}

void OutputFile::fail(const char* action) const {
  throw OutputError(fmt::format("{} {}: {}", action, path_.string(), std::strerror(errno)));
}

} // namespace clusterbench::datasets

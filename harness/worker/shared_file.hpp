// Files of memory that the parent has made, and its child opens by their paths.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace clusterbench {

/// Such a file, mapped; an empty path is an empty one. Throws std::runtime_error that names it, and
/// std::bad_alloc.
class SharedFile {
public:
  enum class Access { read, write };
  SharedFile(const std::string& path, Access access) {
    if (path.empty()) {
      return;
    }
    const int file = open(path.c_str(), (access == Access::read ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) {
      throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
    }
    bytes_ = static_cast<std::size_t>(status.st_size);
    if (bytes_ > 0) {
      data_ = mmap(nullptr, bytes_, access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE,
                   MAP_SHARED, file, 0);
    }
    close(file);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw std::bad_alloc();
    }
  }
  SharedFile(SharedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ~SharedFile() {
    if (data_ != nullptr) {
      munmap(data_, bytes_);
    }
  }
  SharedFile& operator=(SharedFile&&) = delete;
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), data_ == nullptr ? 0 : bytes_ / sizeof(T)};
  }

private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The file holds these bytes and no others. Throws std::runtime_error that names it.
inline void overwrite(const std::string& path, std::span<const std::byte> bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool emptied = file >= 0 && ftruncate(file, 0) == 0;
  std::size_t written = 0;
  while (emptied && written < bytes.size()) {
    const ssize_t got = write(file, bytes.data() + written, bytes.size() - written);
    if (got <= 0) {
      break;
    }
    written += static_cast<std::size_t>(got);
  }
  if (file >= 0) {
    close(file);
  }
  if (!emptied || written < bytes.size()) {
    throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
  }
}

} // namespace clusterbench

#include "harness/system/shared_memory.hpp"

#include "datasets/errors.hpp"
#include "harness/system/available_memory.hpp"
#include "harness/system/process_limits.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace clusterbench {
namespace {

std::size_t file_size(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    throw std::runtime_error(
        fmt::format("descriptor {} is not open: {}", fd, std::strerror(errno)));
  }
  return static_cast<std::size_t>(status.st_size);
}

std::byte* map(int fd, std::size_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    throw OutOfMemory(
        fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  }
  return static_cast<std::byte*>(address);
}

void add_seals(int fd, int seals) {
  if (fcntl(fd, F_ADD_SEALS, seals) != 0) {
    throw std::runtime_error(fmt::format("cannot seal shared memory: {}", std::strerror(errno)));
  }
}

} // namespace

bool is_out_of_memory(const std::exception& error) {
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         (system != nullptr && (system->code() == std::errc::resource_unavailable_try_again ||
                                system->code() == std::errc::not_enough_memory));
}

std::string words_of(const std::exception& error) {
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again
             ? why_none_can_start()
             : error.what();
}

SharedMemory::SharedMemory(const std::string& name, std::size_t bytes)
    : fd_(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
  if (fd_ < 0) {
    throw std::runtime_error(
        fmt::format("cannot create shared memory {}: {}", name, std::strerror(errno)));
  }
  try {
    // The kernel would rather kill processes than refuse: ask first.
    if (const std::size_t available = bytes > 0 ? available_memory_bytes() : 0; bytes > available) {
      throw OutOfMemory(fmt::format("{}: {} bytes of shared memory are needed, {} are available",
                                    name, bytes, available));
    }
    // fallocate reserves the pages now: running out of memory is an error here and not a SIGBUS.
    if (bytes > 0 && fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) != 0) {
      const std::string what = fmt::format("cannot reserve {} bytes of shared memory for {}: {}",
                                           bytes, name, std::strerror(errno));
      if (errno == EFBIG) { // memory is a file here
        throw datasets::OutputError(what + ": it is beyond the limit of a file's size (ulimit -f)");
      }
      throw OutOfMemory(what);
    }
    data_ = map(fd_, bytes_);
  } catch (...) {
    close(fd_);
    throw;
  }
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) {
    munmap(data_, bytes_);
  }
  if (fd_ >= 0) {
    close(fd_);
  }
}

void SharedMemory::seal() {
  add_seals(fd_, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
}

void SharedMemory::fix_size() {
  add_seals(fd_, F_SEAL_SHRINK | F_SEAL_GROW);
}

std::string read_all(int fd, std::size_t offset) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = pread(fd, buffer, sizeof buffer, static_cast<off_t>(offset + text.size()));
    if (got < 0) {
      throw std::runtime_error(fmt::format("cannot read back: {}", std::strerror(errno)));
    }
    if (got == 0) {
      return text;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

std::string read_tail(int fd, std::size_t length) {
  const std::size_t size = file_size(fd);
  return read_all(fd, size - std::min(size, length));
}

void write_all(int fd, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t got = write(fd, text.data() + written, text.size() - written);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw std::runtime_error(fmt::format("cannot write: {}", std::strerror(errno)));
    }
    written += static_cast<std::size_t>(got);
  }
}

} // namespace clusterbench

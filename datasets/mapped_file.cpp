#include "datasets/mapped_file.hpp"

#include "datasets/errors.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace clusterbench::datasets {

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK so that a named pipe is refused below instead of waiting for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    throw InputError(fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw InputError(fmt::format("{}: not a regular file", path.string()));
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) { // mmap refuses a length of zero; an empty file is an empty span
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      const int reason = errno;
      ::close(descriptor);
      throw InputError(fmt::format("{}: cannot map: {}", path.string(), std::strerror(reason)));
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(descriptor);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr)
    ::munmap(const_cast<std::byte*>(data_), size_);
}

} // namespace clusterbench::datasets

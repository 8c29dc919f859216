#include "datasets/mapped_file.hpp"

#include "datasets/array.hpp"
#include "datasets/errors.hpp"
#include "datasets/parallel.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace clusterbench::datasets {

namespace {

/// A regular file that is read, and must not change meanwhile.
class OpenFile {
public:
  // O_NONBLOCK so that a named pipe is refused below instead of waiting for a writer.
  explicit OpenFile(const std::filesystem::path& path)
      : name_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0)
      throw InputError(fmt::format("{}: cannot open: {}", name_, std::strerror(errno)));
    if (::fstat(descriptor_, &before_) != 0 || !S_ISREG(before_.st_mode)) {
      ::close(descriptor_);
      throw InputError(fmt::format("{}: not a regular file", name_));
    }
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::size_t size() const { return static_cast<std::size_t>(before_.st_size); }

  /// Fills all of `memory` with what the file has from `offset` on. Several threads may read.
  void read(std::span<std::byte> memory, std::size_t offset) const {
    constexpr std::size_t kMostAtOnce = std::size_t{1} << 30; // Linux reads at most 2 GiB a call
    while (!memory.empty()) {
      const ssize_t got = ::pread(descriptor_, memory.data(), std::min(memory.size(), kMostAtOnce),
                                  static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0)
        throw InputError(fmt::format("{}: cannot read: {}", name_, std::strerror(errno)));
      if (got == 0)
        fail_changed();
      memory = memory.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::size_t>(got);
    }
  }

  /// To be called when everything has been read.
  void check_unchanged() const {
    struct stat after {};
    if (::fstat(descriptor_, &after) != 0 || after.st_size != before_.st_size ||
        after.st_mtim.tv_sec != before_.st_mtim.tv_sec ||
        after.st_mtim.tv_nsec != before_.st_mtim.tv_nsec)
      fail_changed();
  }

private:
  [[noreturn]] void fail_changed() const {
    throw InputError(fmt::format("{}: the file changed while it was read", name_));
  }

  std::string name_;
  int descriptor_;
  struct stat before_ {};
};

} // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const OpenFile file(path);
  if (file.size() == 0) // mmap refuses a length of zero; an empty file is an empty span
    return;
  checked_bytes(ElementType::u8, file.size(), 1, path.string());
  void* address =
      ::mmap(nullptr, file.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    throw OutOfMemory(fmt::format("{}: no memory for its {} bytes: {}", path.string(), file.size(),
                                  std::strerror(errno)));
  MappedFile memory; // frees it if reading fails
  memory.data_ = static_cast<std::byte*>(address);
  memory.size_ = file.size();
  constexpr std::size_t kPiece = std::size_t{64} << 20; // the kernel clears and copies their pages
  parallel_pieces(memory.size_, kPiece, [&](std::size_t begin, std::size_t end) {
    file.read({memory.data_ + begin, end - begin}, begin);
  });
  file.check_unchanged();
  *this = std::move(memory);
}

void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::span<const std::byte>)>& take) {
  const OpenFile file(path);
  std::vector<std::byte> piece(std::min(file.size(), std::size_t{1} << 20));
  for (std::size_t offset = 0; offset < file.size(); offset += piece.size()) {
    piece.resize(std::min(piece.size(), file.size() - offset));
    file.read(piece, offset);
    take(piece);
  }
  file.check_unchanged();
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
    ::munmap(data_, size_);
}

} // namespace clusterbench::datasets

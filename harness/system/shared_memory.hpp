// Anonymous memory that parent and child share through an inherited file descriptor.
#pragma once

#include "datasets/errors.hpp"

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <utility>

namespace clusterbench {

using datasets::OutOfMemory;

/// Whether an error says that there is no memory: also none for the stack of one more thread.
bool is_out_of_memory(const std::exception& error);

/// What such an error is told as, or any other: its own words, or the limit that it means where
/// these are only "Resource temporarily unavailable".
std::string words_of(const std::exception& error);

/// Owns a memfd and its mapping. The child inherits the descriptor and opens it by number.
class SharedMemory {
public:
  SharedMemory() = default;
  /// `bytes` of zeroed memory; 0: a file that write_all() lets grow. Throws OutOfMemory.
  explicit SharedMemory(const std::string& name, std::size_t bytes = 0);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// From now on nobody can write to it but through this object's own mapping, made before: a child
  /// reads what its parent has put there, and leaves it as it is. Throws std::runtime_error.
  void seal();

  /// From now on nobody can make it shorter or longer: reading it is never a fault. Throws
  /// std::runtime_error.
  void fix_size();

  int fd() const { return fd_; }
  std::size_t bytes() const { return bytes_; }
  std::span<std::byte> span() { return {data_, bytes_}; }
  std::span<const std::byte> span() const { return {data_, bytes_}; }

  /// The memory as an array of T; bytes beyond a whole number of elements are left out.
  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), bytes_ / sizeof(T)};
  }

private:
  void swap(SharedMemory& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Whole content of a descriptor from its start, or from `offset`; for text that a child has
/// written.
std::string read_all(int fd, std::size_t offset = 0);

/// The last `length` bytes, or all if there are fewer.
std::string read_tail(int fd, std::size_t length);

/// Appends text to a descriptor. Throws std::runtime_error on a short write.
void write_all(int fd, const std::string& text);

} // namespace clusterbench

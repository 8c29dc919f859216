// A whole file, mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace clusterbench::datasets {

/// A read-only mapping of a whole file; owns the mapping, move-only.
class MappedFile {
public:
  /// Maps `path`. Throws InputError when it is missing, unreadable or not a regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

} // namespace clusterbench::datasets

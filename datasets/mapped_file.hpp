// A whole file, read into memory of its own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

namespace clusterbench::datasets {

/// A copy of a whole file in mapped memory; owns the memory, move-only. Mapping the file itself
/// would save the copy, but then whoever truncates it ends this process with a SIGBUS, and whoever
/// writes to it changes points that have been checked.
class MappedFile {
public:
  /// Reads `path`. Throws InputError when it is missing, unreadable, not a regular file or changes
  /// meanwhile, and OutOfMemory.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

private:
  MappedFile() = default;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Hands out a file's content in pieces of at most 1 MiB, in order. Throws InputError as MappedFile
/// does.
void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::span<const std::byte>)>& take);

} // namespace clusterbench::datasets

// Writing a file so that it is there whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace clusterbench::datasets {

/// A file in the making: written under a temporary name beside `path`, and given its own name by
/// commit(). Without commit() the temporary file is removed and `path` stays as it was.
/// A `path` that is no regular file (a device, a pipe) is written to directly.
class OutputFile {
public:
  /// Throws OutputError when the folder does not exist or cannot be written.
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Appends. Throws OutputError (a full disk, a device that refuses).
  void write(std::span<const std::byte> bytes);

  /// Flushes to the disk and renames. Throws OutputError.
  void commit();

  /// The same, but throws OutputError where there is a file of that name already.
  void commit_new();

  /// Removes the temporary file of the latest one that lives, for a process that ends at once.
  /// Async-signal-safe.
  static void remove_unfinished() noexcept;

private:
  void close_whole();
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_; // empty when written to directly
  int descriptor_ = -1;
};

} // namespace clusterbench::datasets

// A file of points that stays a file: mapped where it is, with a bound on how much of it is in
// memory.
#pragma once

#include "datasets/array.hpp"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace clusterbench::datasets {

/// Maps a file to read it. While it lives, a thread lets go of its pages, those in the kernel's
/// cache included, whenever more than a budget of them are in memory: whoever reads on reads them
/// again. Whoever truncates the file, and a disk that fails, end no reader: what cannot be read is
/// zeros from then on, and check() says so.
class FileInPlace {
public:
  /// budget: bytes of the file that may be in memory, but for what is read between two looks of the
  /// thread, some milliseconds. Throws InputError when it is missing, unreadable, empty or no
  /// regular file, and where one is mapped already: there is one at a time.
  FileInPlace(const std::filesystem::path& path, std::size_t budget);
  ~FileInPlace();
  FileInPlace(const FileInPlace&) = delete;
  FileInPlace& operator=(const FileInPlace&) = delete;

  std::span<const std::byte> bytes() const;
  /// To read it from, by offset: without the kernel's cache (O_DIRECT) if the file system can do
  /// that.
  int descriptor() const;
  bool is_direct() const;

  /// What the thread does at each of its looks.
  void keep_within_budget() const;
  /// The most bytes of this process that were in memory since the file was opened, without the
  /// pages of the file: they are the kernel's cache, which takes them back whenever it needs them.
  /// How many there are between two looks depends on the load of the machine.
  std::size_t peak_resident_bytes() const;

  /// Whether its size or its time are others than when it was opened.
  bool has_changed() const;
  /// Throws InputError if it has changed, or could not be read somewhere.
  void check() const;

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// For loops over the rows of the file that is mapped now, if there is one: keeps it within its
/// budget, also where the thread gets no processor, and says whether it is intact. They end early
/// if it is not. Takes some microseconds.
bool mapped_file_is_intact();

/// What the header of such a file says of its points.
struct PointsLayout {
  ElementType type;
  std::size_t rows, cols;
  std::size_t offset; ///< of the first element [bytes]
};

/// Of a .npy (native C order) or .fbin whose elements are float32 or float64. Throws InputError for
/// all others, naming the file.
PointsLayout layout_of(std::span<const std::byte> file, const std::filesystem::path& path);

} // namespace clusterbench::datasets

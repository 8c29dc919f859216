// The ledger of a campaign: one JSON line per cell and round, on disk as soon as the cell ends.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace clusterbench {

/// Version of the lines' format, described by results/schema.json.
inline constexpr int kLedgerSchema = 1;

/// A ledger that this process writes. One campaign at a time may hold a folder.
class Ledger {
public:
  /// Creates `folder` if need be and opens its ledger.jsonl for appending. A torn last line, left
  /// by a process that was killed while it wrote, is cut off. Throws datasets::OutputError if the
  /// folder cannot be written or another campaign holds it.
  explicit Ledger(const std::filesystem::path& folder);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Appends one line with a single write and flushes it to the disk. If that fails, because the
  /// disk is full say, the file is cut back to whole lines and datasets::OutputError is thrown.
  void append(const nlohmann::json& line);

  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
  int lock_descriptor_ = -1;
  int descriptor_ = -1;
};

/// Hands over all whole lines of a ledger (a file, or a folder that holds one), in order; a torn last
/// line is left out. Throws datasets::InputError for a missing file, a damaged line (with its number),
/// or a schema newer than this program's (with both versions). A field that `use` misses or finds odd,
/// which it says by nlohmann::json::exception, is such a damage, too.
void for_each_line(const std::filesystem::path& path,
                   const std::function<void(nlohmann::json&)>& use);

/// The lines that for_each_line hands over.
std::vector<nlohmann::json> read_ledger(const std::filesystem::path& path);

} // namespace clusterbench

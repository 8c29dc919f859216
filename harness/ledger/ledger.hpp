// The ledger of a campaign: one JSON line per cell and round, on disk as soon as the cell ends.
#pragma once

#include "harness/ledger/row.hpp"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/types.h>
#include <vector>

namespace clusterbench {

/// Version of the lines' format, described by results/schema.json.
inline constexpr int kLedgerSchema = 2;

/// A ledger that this process writes. One campaign at a time may hold a folder, and its ledger.
class Ledger {
public:
  /// Creates `folder` if need be and opens its ledger.jsonl for appending. A torn last line, left
  /// by a process that was killed while it wrote, is cut off. Throws datasets::OutputError if the
  /// folder cannot be written or another campaign holds it or the ledger.
  explicit Ledger(const std::filesystem::path& folder);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Appends one line, chained to the line before it (chain.hpp), with a single write and flushes
  /// it to the disk; a cell as text_of_cell() has it, so that nothing is written that nobody can
  /// read. If that fails, because the disk is full say, the file is cut back to whole
  /// lines and datasets::OutputError is thrown. So it is where check_undisturbed() throws.
  void append(const nlohmann::json& line);

  /// Throws datasets::OutputError where the path no longer leads to the file that is written to,
  /// or that is not as long as the last line left it: another program was there.
  void check_undisturbed() const;

  const std::filesystem::path& path() const { return path_; }

private:
  void close_all() const;

  std::filesystem::path path_;
  int lock_descriptor_ = -1;
  int descriptor_ = -1;
  off_t size_ = 0;    ///< of the file, as the last line left it
  std::string chain_; ///< of the last line
};

/// All that a ledger says.
struct LedgerContent {
  std::vector<std::shared_ptr<const Header>> headers;
  std::vector<Row> rows; ///< in order
  /// The first line that is not as it was written: "out/ledger.jsonl: edited: line 3 ..."; that it
  /// was repaired: "out/ledger.jsonl: repaired: 2 damaged lines ..."; or empty.
  std::string edited;
};

/// The ledger that `path` names: a file, or the one of a folder.
std::filesystem::path ledger_file(const std::filesystem::path& path);

/// Reads a ledger: a file, or a folder that holds one. A torn last line is left out. Throws
/// datasets::InputError for a missing file, a damaged line (with its number), a row before any
/// header, or a schema that is not this program's (with both versions). An empty one has no rows.
LedgerContent read_ledger(const std::filesystem::path& path);

/// Of files and folders, the files themselves and all ledgers that lie below the folders, in the
/// order of their names. Throws datasets::InputError for a folder without any, and for one that
/// cannot be read.
std::vector<std::string> ledgers_below(const std::vector<std::string>& paths);

/// The same, but of a folder that holds a campaign its ledger alone.
std::vector<std::string> ledgers_of(const std::vector<std::string>& paths);

} // namespace clusterbench

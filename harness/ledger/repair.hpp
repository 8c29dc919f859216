// What is damaged in a ledger, and a ledger without it.
#pragma once

#include "harness/ledger/ledger.hpp"

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace clusterbench {

/// A line that no reader can use, or a cell whose header is one.
struct DamagedLine {
  std::size_t number = 0; ///< from 1
  std::string text;       ///< without its end
  std::string why;        ///< in words that follow "line 3"
  std::string next_chain; ///< of the sound line behind it; empty where there is none
};

/// All lines of a ledger, looked at to its end.
struct LedgerScan {
  std::string file; ///< that was read
  std::vector<DamagedLine> damaged;
  std::vector<std::string> sound; ///< lines without their ends, blank ones included
  std::string last_chain;         ///< of the last sound line
  LedgerContent content;          ///< of the sound lines
};

/// Reads a ledger, a file or a folder that holds one, past its damaged lines. A torn last line is
/// damaged. Throws datasets::InputError for a missing file.
LedgerScan scan_ledger(const std::filesystem::path& path);

/// The same of a ledger's text; file, ledger: its names.
LedgerScan scan_ledger_text(const std::string& text, const std::string& file,
                            const std::string& ledger);

/// The sound lines as they are, and a line that says what was left out.
std::string repaired_text(const LedgerScan& scan);

/// Writes repaired_text() to `out`, and the damaged lines as they are to `out`.damaged, whole or
/// not at all. Throws datasets::OutputError if one of the files is there already or cannot be
/// written, and datasets::InputError if no row is sound.
void write_repaired(const LedgerScan& scan, const std::filesystem::path& out);

} // namespace clusterbench

// One campaign: an ordered list of cells, run in several rounds, every end of a cell in the ledger.
#pragma once

#include "harness/campaign/cell.hpp"
#include "harness/ledger/row.hpp"
#include "harness/problem/table.hpp"
#include "harness/system/exit_codes.hpp"

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

struct CampaignOptions {
  std::vector<CellSpec> cells;
  CellOptions cell;
  int rounds = 1; ///< of every cell
  /// A cell gets fewer rounds where so many would take longer together; its first one it always
  /// gets.
  double rounds_seconds = std::numeric_limits<double>::infinity();
  std::uint32_t seed = 1; ///< of the order of cells within a round
  /// Of the starts. Without one it is drawn, or read from the ledger that is resumed.
  std::optional<std::uint64_t> starts_seed;
  std::filesystem::path out;
  /// Re-use rows of `out` whose key is the same; what crashed or timed out, say, gets another
  /// chance.
  bool resume = false;
  bool probe = true;          ///< measure the machine's limits first
  std::filesystem::path save; ///< where answers are saved as .npy; empty: nowhere
  std::vector<std::string> command_line;
};

/// What a campaign left behind.
struct CampaignResult {
  ExitCode exit_code = ExitCode::ok;
  std::vector<Row> rows; ///< one per cell and round, re-used ones included
  /// Where rows were re-used of a ledger that is not as it was written, a sentence that says so.
  std::vector<std::string> edited;
};

/// Runs the campaign and writes ledger.jsonl and gbench.json, which holds all of the ledger, into
/// `out`. Throws datasets::InputError (bad problems, and a ledger that cannot be read, are found
/// before anything is run) and datasets::OutputError.
CampaignResult run_campaign(const CampaignOptions& options);

} // namespace clusterbench

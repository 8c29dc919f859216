// The times that an earlier campaign left behind: a ledger, or Google Benchmark's JSON.
#pragma once

#include "harness/ledger/cell_identity.hpp"
#include "harness/ledger/ratio.hpp"

#include <compare>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace clusterbench {

/// Which cell. Google Benchmark's JSON of another program does not tell the threads, 0, nor the
/// problem.
struct CellName {
  std::string name; ///< table/problem/variant/precision, with GPUs and ranks if there are several
  int threads = 0;
  ProblemIdentity problem;
  auto operator<=>(const CellName&) const = default;

  /// Whether both have as many, as far as they tell it.
  bool same_threads(const CellName& other) const {
    return threads == 0 || other.threads == 0 || threads == other.threads;
  }
};

/// The name, with the threads or what else is needed to tell it from other cells of that name.
std::string shown_name(const CellName& cell, const std::vector<CellName>& of_that_name);

/// One cell of a campaign, all its rounds together. A round that failed speaks for the cell.
struct CellTimings {
  std::string status = "ok"; ///< as in the ledger, or `unsandboxed`
  std::string message;       ///< of a round that failed
  std::string variant;       ///< ledgers only
  Rounds runs_ms;            ///< raw samples [ms]; empty unless ok
  Costs passes;              ///< of the same; no rounds where passes are not recorded
  double processors = 0.0;   ///< that runs of a millisecond or more keep busy; 0: not known
  bool on_gpus = false;
};

struct Timings {
  std::string source; ///< the file
  std::map<CellName, CellTimings> cells;
  std::set<std::string> environments; ///< hashes, of the rows that count; ledgers only
  nlohmann::json environment;         ///< comparable_environment() of the last; ledgers only
  nlohmann::json earlier_environment; ///< of the last that is another; null if there is one only
  /// Of processor and memory, as the probe has measured them; ledgers only.
  std::map<std::string, double> rates;
  nlohmann::json context; ///< Google Benchmark's num_cpus and caches; null where no cell was timed
  std::string started; ///< when the first of its rows' headers was written, ISO 8601; ledgers only
  /// The words that made it, without --rounds, --starts, --out and --resume; ledgers only.
  std::vector<std::string> command;
  std::string edited;             ///< a sentence, if a ledger is not as it was written
  std::set<std::string> variants; ///< of all its cells, also those left out; ledgers only
  std::size_t left_out = 0;       ///< cells, by keep_cells()
};

/// Reads a folder with a ledger.jsonl, a ledger, or a JSON file of Google Benchmark. Throws
/// datasets::InputError for files that are missing, damaged or of another kind.
Timings read_timings(const std::filesystem::path& path);

/// Leaves out the cells of which no glob matches the name, or the name as reports show it; a glob's
/// * matches slashes too. Throws
/// datasets::InputError where none of any campaign is left. No globs: all stay.
void keep_cells(const std::vector<Timings*>& campaigns, const std::vector<std::string>& globs);

} // namespace clusterbench

// The times that an earlier campaign left behind: a ledger, or Google Benchmark's JSON.
#pragma once

#include "harness/compare/ratio_of_medians.hpp"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace clusterbench {

/// One cell of a campaign, all its rounds together. A round that failed speaks for the cell.
struct CellTimings {
  std::string status = "ok"; ///< as in the ledger
  std::string message;       ///< of a round that failed
  std::string work;          ///< what was computed: problem hash and threads; empty: not recorded
  Rounds rounds_ms;          ///< raw samples [ms]; empty unless ok
};

struct Timings {
  std::string source;                       ///< the file
  std::map<std::string, CellTimings> cells; ///< by name: table/problem/variant/precision
  std::set<std::string> environment_hashes; ///< of the campaigns whose rows are used; ledgers only
  nlohmann::json environment;               ///< comparable_environment() of the last; ledgers only
  nlohmann::json context; ///< Google Benchmark's num_cpus and caches; null where no cell was timed
};

/// Reads a folder with a ledger.jsonl, a ledger, or a JSON file of Google Benchmark. Of several rows
/// of one cell and round the newest counts. Throws datasets::InputError for files that are missing,
/// damaged or of another kind.
Timings read_timings(const std::filesystem::path& path);

} // namespace clusterbench

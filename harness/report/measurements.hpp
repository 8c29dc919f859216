// What ledgers say about the cells of one table, kept apart by machine.
#pragma once

#include "harness/run/rounds.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// A machine that cells were measured on: ledgers whose headers agree on everything that times
/// depend on.
struct Machine {
  std::string id;          ///< "A", "B", ... in the order of the ledgers
  std::string name;        ///< CPU model with cores, and GPUs
  std::string cpu;         ///< model; empty if unknown
  std::string gpu;         ///< names; empty if there is none
  std::string environment; ///< hash of the environment; empty if unknown
  std::vector<std::string> ledgers;
  std::string first_day, last_day; ///< of the rows, YYYY-MM-DD; empty if unknown

  /// Counts the day of one more row; an empty one is unknown.
  void measured_on(const std::string& day);
  /// "2026-11-21", or "2026-11-20 to 2026-11-21"; empty if unknown.
  std::string days() const;
};

/// "A", "B", ... for index 0, 1, ...
std::string machine_id(std::size_t index);

/// All rounds of one cell on one machine with one number of threads.
struct Measured {
  std::size_t machine = 0; ///< index into Measurements::machines
  int threads = 0;
  std::string problem;
  std::string variant;
  std::string precision;
  std::vector<nlohmann::json> rounds; ///< rows of the ledger, the newest of each round

  /// The row that speaks for the cell: the first that is not ok, otherwise the last.
  const nlohmann::json& speaker() const;
  bool ok() const { return speaker().at("status") == "ok"; }
  /// The median over the rounds of a field that all of them have; NaN if one lacks it.
  double median_of(const char* field) const;
  /// Median, deviation and interval of the times of all rounds [ms]; empty without samples.
  std::optional<PooledRounds> times() const;
};

struct Measurements {
  std::vector<Machine> machines;
  std::vector<Measured> cells; ///< by machine, in the order of the ledgers; then as first seen
};

/// Reads ledgers (files, or folders that hold one) and keeps the rows of one table. Figures are
/// derived anew from the recorded samples and limits, so that rows of an older program follow the
/// same rules. Throws what read_ledger throws.
Measurements read_measurements(const std::vector<std::string>& ledgers, const std::string& table);

/// The rows of a campaign that has just ended, all from this machine.
Measurements campaign_measurements(const std::vector<nlohmann::json>& rows,
                                   const std::string& table);

} // namespace clusterbench

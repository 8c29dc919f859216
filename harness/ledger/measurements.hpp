// What ledgers say about cells: which rows count, kept apart by machine.
#pragma once

#include "harness/ledger/rounds.hpp"
#include "harness/ledger/row.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// A machine that cells were measured on: headers that agree on everything that times depend on.
struct Machine {
  std::string id;            ///< "A", "B", ... in the order of the ledgers
  std::string name;          ///< CPU model with cores, and GPUs
  std::string cpu;           ///< model; empty if unknown
  std::string gpu;           ///< names; empty if there is none
  std::string environment;   ///< hash of the environment
  nlohmann::json comparable; ///< comparable_environment()
  std::vector<std::string> ledgers;
  std::string first_day, last_day; ///< of the rows that count, YYYY-MM-DD; empty if unknown
  /// The newest probe's figures of each number of threads and of the GPU; empty without a probe.
  nlohmann::json limits = nlohmann::json::object();
  std::vector<double> cpu_shares; ///< of its processors, what each probe got of 1

  /// "2026-11-21", or "2026-11-20 to 2026-11-21"; empty if unknown.
  std::string days() const;
};

/// "A", "B", ... for index 0, 1, ...
std::string machine_id(std::size_t index);

/// What tells machine `index` from the first of those before it that have its name, such as "as A,
/// but system/kernel: 6.1, 6.2"; empty if none has.
std::string unlike_namesake(const std::vector<Machine>& machines, std::size_t index);

/// All rounds of one cell, that is of one problem, on one machine with one number of threads, GPUs
/// and ranks; never none.
struct Measured {
  std::size_t machine = 0; ///< index into Measurements::machines
  /// Of several machines, threads, GPUs and ranks: the one that short forms show.
  bool shown_first = false;
  std::vector<Row> rounds; ///< by number

  /// The row that speaks for the cell: the first that is not ok, otherwise the last.
  const Row& representative() const;
  bool ok() const { return representative().ok(); }
  const std::string& name() const { return rounds.front().name; }
  int threads() const { return rounds.front().threads; }
  int gpus() const { return rounds.front().gpus; }
  int ranks() const { return rounds.front().ranks; }
  /// Of its problem, as far as any round tells it.
  ProblemIdentity identity() const;

  /// The median over the rounds of a figure that all of them have.
  std::optional<double> median_of(const std::function<std::optional<double>(const Row&)>& of) const;
  /// The same of a field of the rows.
  std::optional<double> median_of(std::string_view field) const;
  /// Of the run from the problem's own start [ms].
  std::optional<double> own_ms() const;
  std::optional<double> own_ms_per_iteration() const;
  /// Samples of runs [ms]; empty if a round has none.
  Rounds runs_ms() const;
};

struct Measurements {
  std::vector<Machine> machines;   ///< those that have a cell
  std::vector<Measured> cells;     ///< by machine, in the order of the ledgers; then as first seen
  std::vector<std::string> edited; ///< of each ledger that is not as it was written, a sentence
};

/// Which rows count: of the rows of one cell, machine, number of threads, GPUs, ranks and round the
/// newest, that is, the last; but one that says `unavailable`, of a build without the backend,
/// never takes the place of another. In the order in which the cells came first.
std::vector<Row> rows_that_count(std::vector<Row> rows);

/// The cells of the rows that count; every row has its header. table: only its rows; empty: all.
Measurements measurements_of(std::vector<Row> rows, const std::string& table = "");

/// Reads ledgers: files, or folders that hold one. Throws what read_ledger() throws.
Measurements read_measurements(const std::vector<std::string>& ledgers,
                               const std::string& table = "");

} // namespace clusterbench

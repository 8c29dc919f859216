// A table as the article printed it beside the same table here: all that a page, a terminal or a
// picture shows of it.
#pragma once

#include "harness/problem/table.hpp"
#include "harness/report/equal_work.hpp"
#include "harness/report/measurements.hpp"
#include "harness/report/published.hpp"
#include "harness/report/verdict.hpp"

#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// One cell of the table on one machine, or a cell that no ledger has.
struct ReportCell {
  CellSpec spec;
  std::optional<Measured> measured; ///< empty: not run
  std::string label;                ///< the article's row that it stands for; empty: not in it
  OtherWork work;                   ///< how its work differs from its problem's
  std::size_t rank = 0; ///< by time among the equal work of its problem and precision; 0: unranked
  std::string unranked; ///< why not; empty if ranked
  std::optional<double> speedup;      ///< over the article's baseline, of runs or iterations
  std::size_t baseline_machine = 0;   ///< where the baseline was measured, if there is a speed-up
  bool shown_first = false;           ///< of several machines: the one that the short forms show

  bool ok() const { return measured && measured->ok(); }
};

/// One value of the article beside ours.
struct BesideRow {
  PrintedCell printed;
  std::optional<std::size_t> cell; ///< index into TableReport::cells of the cell that is shown
  double printed_speedup = 0.0;
  std::optional<double> speedup;
  RowVerdict verdict;
};

struct TableReport {
  Table table;
  std::vector<Machine> machines; ///< those that have a cell of this table
  std::optional<Published> published;
  std::vector<BesideRow> beside; ///< in the article's order, problem by problem
  std::vector<ReportCell> cells; ///< in the table's order, then by machine
};

/// Puts together what the definition, the ledgers and the article say.
TableReport make_table_report(const Table& table, Measurements measurements,
                              std::optional<Published> published);

/// "right", "right (single steps)", the status of a cell that is not ok, or "not run".
std::string verification_text(const ReportCell& cell);

/// The time that speed-ups are made of [ms]: of the run, or of one iteration.
double compared_ms(const Measured& cell, SpeedupOf speedup_of);

/// Loading the data and a peer's libraries, where the ledger has it, preparing, running and fetching
/// [ms].
std::optional<double> end_to_end_ms(const Measured& cell);

/// The share of the n k distances of every pass that an algorithm which skips some did not
/// compute [percent]; empty unless it counts them.
std::optional<double> distances_avoided_percent(const Measured& cell);

} // namespace clusterbench

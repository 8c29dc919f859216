// A table as the article printed it beside the same table here: all that a page, a terminal or a
// picture shows of it.
#pragma once

#include "harness/ledger/ratio.hpp"
#include "harness/problem/table.hpp"
#include "harness/report/equal_work.hpp"
#include "harness/report/published.hpp"
#include "harness/report/verdict.hpp"

#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// Of the interval of a ratio in a table.
inline constexpr std::size_t kTableResamples = 1000;

/// A place among the equal work of one problem in one precision. Approximate variants have an order
/// of their own.
struct Place {
  std::size_t rank = 0; ///< 0: unranked
  bool tied = false;    ///< others have the same rank: intervals do not tell them apart
  std::string unranked; ///< why not; empty if ranked
};

/// Strong: the same problem on one. Weak: a problem of 1 / R of the rows on one.
enum class Scaling { strong, weak };
/// Who computes on one: the variant itself, or whichever is fastest there.
enum class OnOne { itself, fastest };

/// What R ranks or R GPUs make of their hardware (docs/several_gpus.md).
struct Efficiency {
  Scaling scaling = Scaling::strong;
  OnOne on_one = OnOne::itself;
  std::size_t base = 0;       ///< index into TableReport::cells of the cell on one, if there is one
  std::optional<Ratio> value; ///< 1: R times the hardware is R times the speed
  std::string why_not;        ///< why there is none; empty if there is one
};

/// One cell of the table on one machine, or a cell that no ledger has.
struct ReportCell {
  CellSpec spec;
  std::optional<Measured> measured; ///< empty: not run
  std::string label;                ///< the article's row that it stands for; empty: not in it
  OtherWork work;                   ///< how its work differs from its problem's
  Place by_iteration, by_whole;     ///< by time per iteration, and by whole answer
  std::optional<Ratio> over_first;  ///< of times per iteration; empty if unranked
  std::optional<double>
      speedup; ///< from the article's start, over its baseline: runs or iterations
  std::size_t baseline_machine = 0;     ///< where the baseline was measured, if there is a speed-up
  std::vector<Efficiency> efficiencies; ///< of several ranks or GPUs, all four; of others none

  bool ok() const { return measured && measured->ok(); }
  bool shown_first() const { return !measured || measured->shown_first; }
  bool approximate() const {
    return measured && measured->representative().approximate_within > 0.0;
  }
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
  std::vector<BesideRow> beside;   ///< in the article's order, problem by problem
  std::vector<ReportCell> cells;   ///< in the table's order, then by machine
  std::vector<std::string> edited; ///< of each ledger that is not as it was written, a sentence
};

/// Puts together what the definition, the ledgers and the article say.
TableReport make_table_report(const Table& table, Measurements measurements,
                              std::optional<Published> published);

/// "right", "right (single steps)", "approximate: ..." with what it differs by, the status of a
/// cell that is not ok, or "not run".
std::string verification_text(const ReportCell& cell);

/// The time that speed-ups are made of, from the article's own start [ms]: of the run, or of one
/// iteration.
std::optional<double> compared_ms(const Measured& cell, SpeedupOf speedup_of);

/// How an approximate variant's answer from the problem's own start differs from the exact one.
struct Approximation {
  std::optional<double> labels_differ; ///< share of the labels
  std::optional<double> objective_gap; ///< relative to the oracle's
};
Approximation approximation_of(const Measured& cell);

/// The share of the n k distances of every pass that an algorithm which skips some did not
/// compute [percent]; empty unless it counts them.
std::optional<double> distances_avoided_percent(const Measured& cell);

/// The share of all rounds' samples that were dropped as warm-up [percent].
double warm_up_percent(const Measured& cell);

} // namespace clusterbench

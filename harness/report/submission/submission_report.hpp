// What ledgers say of a variant from outside: right or wrong, how fast, beside whom, and how far
// from the machine's limit.
#pragma once

#include "harness/report/table_report.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace clusterbench {

/// A time as a figure with its 95 % interval, or its range [ms].
struct TimeFigure {
  double ms = 0.0;
  Interval interval;
  bool is_range = false;
};

/// How many times longer the variant takes per pass than another one.
struct OverOther {
  std::string variant;
  Ratio ratio;
};

/// One of the cells of a problem, by its place.
struct CompanyCell {
  std::string variant, verified;
  std::size_t rank = 0; ///< 0: none
  std::string unranked; ///< why not
  std::optional<TimeFigure> per_iteration, whole;
  std::optional<double> percent_of_limit;
};

/// The variant on one problem in one precision.
struct SubmissionCell {
  std::string problem, precision;
  std::string status, message;
  std::string verified; ///< as in tables: "right", ...
  std::optional<TimeFigure> per_iteration, whole;
  std::size_t rank = 0, ranked = 0;   ///< of so many; 0: no rank
  std::string unranked;               ///< why not
  std::optional<OverOther> over_best; ///< beside the fastest of the others
  /// Beside its neighbour: the one before it, or the one behind it if it is the first.
  std::optional<OverOther> over_next;
  std::optional<double> limit_ms, percent_of_limit;
  std::string limit;                                  ///< what bounds a pass: "read bandwidth", ...
  std::vector<std::pair<std::string, double>> phases; ///< percent of the recorded run's phases
  std::string device;
  int threads = 0;
  std::vector<CompanyCell> company; ///< all cells of the problem, by rank
};

struct SubmissionReport {
  std::string variant;
  nlohmann::json origin; ///< file, kind, flags: the row's `submission`
  std::string verdict;   ///< "right", "approximate", or the gravest status
  std::string message;   ///< of that status
  std::vector<SubmissionCell> cells;
  std::vector<std::string> advice; ///< what to try next
  /// Why times stand beside no model bound, as a sentence; empty if all do, or there are none.
  std::string no_bound;
};

/// variants: those from outside, in their order. rows: of the ledger that the report was made from;
/// tables leave out those that say `unavailable`.
std::vector<SubmissionReport> make_submission_reports(const TableReport& report,
                                                      const std::vector<std::string>& variants,
                                                      const std::vector<Row>& rows);

/// What to try next, from what bounds the variant on each problem: one sentence each.
std::vector<std::string> advice_for(const std::vector<SubmissionCell>& cells);

} // namespace clusterbench

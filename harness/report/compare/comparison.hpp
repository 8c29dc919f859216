// Two campaigns, cell by cell: which cells became slower, which are missing, what cannot be told.
#pragma once

#include "harness/report/compare/timings.hpp"
#include "harness/system/exit_codes.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

struct CompareOptions {
  double min_effect = 0.02; ///< changes below this share count as none
  double level = 0.01;      ///< how often equal builds may be called slower, all cells together

  /// Where a change can only be smaller than this share, nothing has changed.
  double same_within() const { return std::max(min_effect, 0.05); }
};

/// Both campaigns' times of one cell, where both have some.
struct Change {
  double base_ms = 0.0, new_ms = 0.0; ///< medians of runs
  double ratio = 1.0;    ///< new / base, of passes; of runs, if one side has not recorded passes
  Interval interval;     ///< of the ratio, 95 %; of too few processes, the range of what they took
  bool is_range = false; ///< the latter
  bool paired = false;   ///< by start
  /// Of as long a new time or a longer one, or a shorter one where the ratio is below 1, if the
  /// builds are equal; 1 for too few processes.
  double p = 1.0;
  double q = 1.0;                ///< p adjusted for the number of cells
  double campaign_scatter = 0.0; ///< by which equal campaigns are taken to differ; 0: no test
  /// The processes that would tell, where these do not; empty where no number would.
  std::optional<std::size_t> rounds_needed;
};

struct ComparedCell {
  /// `slower` and `faster`: the ratio is beyond the minimum effect, and q is at most the level;
  /// never of a side with fewer than kLeastProcesses. `same`: the ratio is within the minimum
  /// effect, and the whole interval within same_within().
  /// `inconclusive`: neither. `missing`, `wrong`, `failed`: the new campaign lacks the cell or its
  /// answer. `wrong` is also one that cheated. `different_work`: problem or threads differ. `new`:
  /// only the new campaign has it. `not_compared`: neither could be used, in the same way as
  /// before.
  std::string verdict;
  std::string name;
  std::string message; ///< why there is no ratio, or no verdict
  std::optional<Change> change;
  std::string variant = {}; ///< of a cell with a ratio, where it is known
  /// Its name, as `gate` takes it; empty for a cell of no table.
  std::string of_table = {};
};

struct Comparison {
  std::string base, fresh; ///< the files
  CompareOptions options;
  std::vector<ComparedCell> cells; ///< by name; those that only the new campaign has come last
  std::size_t ratios = 0;          ///< cells with a ratio
  double geometric_mean = 1.0;     ///< of the ratios
  std::optional<Interval> geometric_mean_interval; ///< 95 %; empty if one is of too few processes
  std::string environments_differ;                 ///< in what; empty: they do not
  std::vector<std::string> edited; ///< of each ledger that is not as it was written, a sentence
  std::size_t left_out = 0;        ///< cells of the base, by keep_cells()
  /// That runs both again with rounds_needed(), where FOLDER is to be replaced; empty where no
  /// number of rounds tells, or the base does not say its command.
  std::string command;
  /// That tells what rounds do not, where BUILD is to be replaced; empty where nothing is open, or
  /// the gate cannot.
  std::string gate_command;

  /// 2 for a newly wrong cell, 5 for a missing or newly failed one, 4 for a ledger that was edited,
  /// 1 for a slower cell, 3 for an inconclusive one that may be slower; the gravest. Improvements
  /// never fail.
  ExitCode exit_code() const;
  /// The most rounds that an inconclusive cell needs; empty where there is none that rounds help.
  std::optional<std::size_t> rounds_needed() const;
};

/// Why the two were measured under different conditions; empty if they were not.
std::vector<std::string> environment_mismatch(const Timings& base, const Timings& fresh);

Comparison compare_timings(const Timings& base, const Timings& fresh,
                           const CompareOptions& options);

} // namespace clusterbench

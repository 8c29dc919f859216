// Two campaigns, cell by cell: which cells became slower, which are missing, what cannot be told.
#pragma once

#include "harness/report/compare/timings.hpp"
#include "harness/system/exit_codes.hpp"

#include <optional>

namespace clusterbench {

struct CompareOptions {
  double min_effect = 0.02; ///< changes below this share count as none
  double level = 0.05;      ///< of the adjusted p-values
};

/// Both campaigns' times of one cell, where both have some.
struct Change {
  double base_ms = 0.0, new_ms = 0.0; ///< medians of runs
  double ratio = 1.0;    ///< new / base, of passes; of runs, if one side has not recorded passes
  Interval interval;     ///< of the ratio, 95 % or the range
  bool is_range = false; ///< the latter, as in Ratio
  bool paired = false;   ///< by start
  /// Of the U test on the rounds' medians, or one round's samples; of one round's pairs by start,
  /// of the signed-rank test.
  double p = 1.0;
  double least_p = 1.0;     ///< that the test can find, whatever the times are
  double q = 1.0;           ///< p adjusted for the number of cells
  bool few_samples = false; ///< not even sets that do not overlap have a small enough q
  bool overlap = true;      ///< of what the test is asked about; pairs: differences of both signs
  std::vector<double> log_draws; ///< as in Ratio
};

struct ComparedCell {
  /// `slower` and `faster`: the ratio is beyond the minimum effect, its interval excludes 1, and q
  /// is at most the level; with too few samples for that, no sample overlaps and the ratio is
  /// beyond five minimum effects. `same`: the whole interval is within the minimum effect.
  /// `inconclusive`: neither. `missing`, `wrong`, `failed`: the new campaign lacks the cell or its
  /// answer. `wrong` is also one that cheated. `different_work`: problem or threads differ. `new`:
  /// only the new campaign has it. `not_compared`: neither could be used, in the same way as
  /// before.
  std::string verdict;
  std::string name;
  std::string message; ///< why there is no ratio, or no test
  std::optional<Change> change;
};

struct Comparison {
  std::string base, fresh; ///< the files
  CompareOptions options;
  std::vector<ComparedCell> cells; ///< by name; those that only the new campaign has come last
  std::size_t ratios = 0;          ///< cells with a ratio
  bool one_process = false;        ///< a side of one of them has a single round
  double geometric_mean = 1.0;     ///< of the ratios
  Interval geometric_mean_interval{1.0, 1.0};
  std::vector<std::string> edited; ///< of each ledger that is not as it was written, a sentence

  /// 2 for a newly wrong cell, 5 for a missing or newly failed one, 4 for a ledger that was edited,
  /// 1 for a slower cell, 3 for an inconclusive one that may be slower; the gravest. Improvements
  /// never fail.
  ExitCode exit_code() const;
};

/// Why the two were measured under different conditions; empty if they were not.
std::vector<std::string> environment_mismatch(const Timings& base, const Timings& fresh);

Comparison compare_timings(const Timings& base, const Timings& fresh,
                           const CompareOptions& options);

} // namespace clusterbench

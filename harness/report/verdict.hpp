// Whether a printed figure is reproduced here.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// One row of a printed column with its counterpart. Speed-ups are over the column's baseline.
struct ComparedRow {
  std::string label;
  double printed_speedup = 0.0;
  std::optional<double> speedup; ///< here; empty if there is none
  std::string missing;           ///< why there is none
  bool is_baseline = false;
  double factor = 2.0; ///< within which the speed-ups must agree
  std::string factor_reason;
  std::string wrong;      ///< why the published program is wrong; or empty
  std::string other_work; ///< why the printed time is of other work; or empty
};

struct RowVerdict {
  /// `baseline`, `reproduced`, `not reproduced`, `published program is wrong`, `not comparable`
  /// (the printed time is of other work, or ours is), or `not run`.
  std::string word;
  std::vector<std::string> reasons;
};

/// Printed times that differ by no more than this count as equal: no order is printed.
inline constexpr double kEqualWhenPrinted = 1.05;

/// Judges row `index` among the rows of one printed column. It is reproduced if its speed-up is
/// within the row's factor of the printed one, and if it stands to every other row that can be
/// compared in the order that was printed.
RowVerdict judge_row(const std::vector<ComparedRow>& rows, std::size_t index);

} // namespace clusterbench

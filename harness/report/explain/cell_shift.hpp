// What ledgers say about two variants on the same cells: times, share of the limit, phases.
#pragma once

#include "harness/ledger/ratio.hpp"

#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// Milliseconds per iteration in a phase of the recorded run; empty for a variant without it.
struct PhaseShift {
  std::string phase;
  std::optional<double> before, after;
};

struct CellShift {
  std::string cell; ///< table/problem/precision, and what tells it from others of that name
  std::string machine;
  Measured before, after;
  Ratio per_iteration;        ///< of their times, after / before
  std::optional<Ratio> whole; ///< of their whole answers
  std::optional<Ratio> run;   ///< of their runs
  std::vector<PhaseShift> phases;
  /// What single figures of a pass, and of a whole answer, must differ by at least to differ [ms]:
  /// nearly all samples of the side that scatters more do not differ by more.
  double pass_scatter_ms = 0.0, whole_scatter_ms = 0.0;
};

struct CellShifts {
  std::vector<CellShift> cells;    ///< in the order of the ledgers
  std::vector<std::string> edited; ///< of each ledger that is not as it was written, a sentence
};

/// The cells of one problem that both variants got right on the same machine with the same number
/// of threads. cell: shell glob of table/problem/precision. Throws what read_ledger() throws.
CellShifts cell_shifts(const std::vector<std::string>& ledgers, const std::string& before,
                       const std::string& after, const std::string& cell);

} // namespace clusterbench

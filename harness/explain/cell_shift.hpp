// What ledgers say about two variants on the same cells: times, share of the limit, phases.
#pragma once

#include "harness/run/rounds.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// One variant on one cell, all rounds of one machine together.
struct CellFigures {
  PooledRounds run_ms;
  std::size_t iterations = 0;
  double ms_per_iteration = 0.0;
  std::optional<double> percent_of_limit;
  std::string limit;          ///< what limits: empty if unknown
  bool stopped_early = false; ///< at a fixed point
};

/// Milliseconds per iteration in a phase of the recording run; empty for a variant without it.
struct PhaseShift {
  std::string phase;
  std::optional<double> before, after;
};

struct CellShift {
  std::string cell; ///< table/problem/precision
  std::string machine;
  int threads = 0; ///< 0 on a GPU, where they do not matter
  CellFigures before, after;
  std::vector<PhaseShift> phases;
};

/// The cells that both variants got right on the same machine with the same number of threads, in
/// the order of the ledgers. cell: shell glob of table/problem/precision. Throws what read_ledger
/// throws.
std::vector<CellShift> cell_shifts(const std::vector<std::string>& ledgers,
                                   const std::string& before, const std::string& after,
                                   const std::string& cell);

} // namespace clusterbench

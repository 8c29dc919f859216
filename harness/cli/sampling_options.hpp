// How cells are measured, and where the ledger goes: options of every subcommand that measures.
#pragma once

#include "harness/campaign/cell.hpp"
#include "harness/machine/usable_processors.hpp"

#include <CLI/CLI.hpp>
#include <string>

namespace clusterbench {

struct SamplingOptions {
  int threads = default_threads();
  std::size_t samples = SamplingPlan{}.samples;
  double budget = SamplingPlan{}.budget_seconds;
  double timeout = 900.0; ///< seconds
  std::string out{};
};

/// What --samples, --budget and --timeout mean, where it is not the usual.
struct SamplingHelp {
  std::string samples = "Samples per cell, at least";
  std::string budget = "Seconds of sampling per cell after which no more is taken";
  std::string timeout = "Seconds after which a cell is given up";
};

void add_sampling_options(CLI::App& command, SamplingOptions& options,
                          const SamplingHelp& help = {});

/// Throws datasets::InputError, naming the option.
void check_sampling_options(const SamplingOptions& options);

/// The cell's part of what they say.
CellOptions cell_options(const SamplingOptions& options);

} // namespace clusterbench

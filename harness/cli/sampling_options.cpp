#include "harness/cli/sampling_options.hpp"

#include "datasets/errors.hpp"
#include "harness/campaign/sampling.hpp"
#include "harness/cli/options.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace clusterbench {

using datasets::InputError;

void add_sampling_options(CLI::App& command, SamplingOptions& options, const SamplingHelp& help) {
  command.add_option("--threads", options.threads, "CPU threads a variant may use")
      ->capture_default_str();
  command.add_option("--samples", options.samples, help.samples)
      ->check(whole_number())
      ->capture_default_str();
  command.add_option("--budget", options.budget, help.budget)->capture_default_str();
  command.add_option("--timeout", options.timeout, help.timeout)->capture_default_str();
  command.add_option("--out", options.out, "Folder for ledger.jsonl and gbench.json");
}

void check_sampling_options(const SamplingOptions& options) {
  check_threads(options.threads);
  if (options.samples < 1 || options.samples > kMostSamples) {
    throw InputError(
        fmt::format("--samples {}: from 1 to {} are taken", options.samples, kMostSamples));
  }
  constexpr double kShortestTimeout = 0.1; // seconds; no process starts in much less
  if (!(options.timeout >= kShortestTimeout) || !std::isfinite(options.timeout)) {
    throw InputError(fmt::format("--timeout {}: seconds are needed, at least {}", options.timeout,
                                 kShortestTimeout));
  }
  if (!(options.budget >= 0.0) || !std::isfinite(options.budget)) { // the ledger holds numbers
    throw InputError(
        fmt::format("--budget {}: a number is needed that is not negative", options.budget));
  }
}

CellOptions cell_options(const SamplingOptions& options) {
  CellOptions cell;
  cell.threads = options.threads;
  cell.sampling.samples = options.samples;
  cell.sampling.budget_seconds = options.budget;
  cell.sampling.max_samples = std::max(cell.sampling.max_samples, options.samples);
  cell.timeout = std::chrono::duration<double>(options.timeout);
  return cell;
}

} // namespace clusterbench

// How many times longer one cell takes than another: start by start where both had the same starts.
#pragma once

#include "harness/ledger/measurements.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// How busy others kept the machine around a sample (docs/comparing.md).
struct Busyness {
  double fixed_work_us = 0.0; ///< what a fixed piece of work took
  /// That had no core of their own, or their share of the GPU; 0 also where that is not known.
  double other_tasks = 0.0;
};

/// What a cell cost [ms], round by round, with the number of the start that each cost is of.
struct Costs {
  struct Round {
    std::vector<double> ms;
    std::vector<std::size_t> starts;   ///< as long as ms, or empty: not known
    std::vector<Busyness> around = {}; ///< each; as long as ms, or empty: not known
  };
  /// What a number means as a start: equal texts, equal starts. Empty: not known.
  std::string starts_of;
  std::vector<Round> rounds;

  Rounds ms() const;
};

/// Of one pass: starts may lead variants to other numbers of passes. No rounds where one has no
/// samples.
Costs pass_costs(const Measured& cell);
/// Of whole answers.
Costs whole_costs(const Measured& cell);

/// Fewer starts in common tell nothing.
inline constexpr std::size_t kLeastPairs = 3;

/// The costs of two cells, base and new, freed of what their starts cost: of the starts that all
/// rounds of both have, each divided by the mean cost of its start. In the order of the starts, so
/// that of one round each, costs at the same place are a pair. Empty without kLeastPairs.
std::optional<std::array<Costs, 2>> free_of_starts(const Costs& base, const Costs& fresh);
/// The same, costs alone.
std::optional<std::array<Rounds, 2>> pair_by_start(const Costs& base, const Costs& fresh);

struct Ratio {
  double ratio = 1.0; ///< new / base, of the medians of rounds
  Interval interval;  ///< 95 % bootstrap interval, or the range
  /// One side has not enough_for_interval(): least new / greatest base, and so on.
  bool is_range = false;
  bool paired = false;           ///< by start
  std::vector<double> log_draws; ///< the bootstrap's logarithms of the ratio, in order of drawing
};

/// Pairs by start where it can, and bootstraps with RoundsResampler. Throws std::invalid_argument
/// for no round, an empty one or a median that is not positive.
Ratio ratio_of(const Costs& base, const Costs& fresh, std::size_t resamples = 2000,
               std::uint64_t seed = 1);

/// The same ratio alone.
double point_ratio(const Costs& base, const Costs& fresh);

} // namespace clusterbench

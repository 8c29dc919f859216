// Time to quality of all solvers on all problems: summaries by initialisation, and profiles.
#pragma once

#include "harness/report/quality/attempts.hpp"
#include "harness/report/quality/profile.hpp"
#include "harness/report/quality/time_to_quality.hpp"
#include "harness/system/exit_codes.hpp"

#include <array>
#include <optional>
#include <string_view>

namespace clusterbench {

/// Quality is an inertia of at most (1 + within) times the best known one.
inline constexpr std::array<double, 2> kWithin = {0.01, 0.001};

/// Factors over the least time at which profiles are printed.
inline constexpr std::array<double, 6> kTaus = {1.0, 1.5, 2.0, 4.0, 8.0, 16.0};

/// An inertia that the user knows of.
struct GivenBest {
  std::string data;
  std::size_t k = 0;
  double inertia = 0.0;
  std::size_t n = 0; ///< rows of the data; 0: not said, and only one number of them may be there
};

/// "DATA:K=INERTIA" or "DATA:K,ROWS=INERTIA". Throws datasets::InputError.
GivenBest parse_best(std::string_view text);

/// The least inertia that any attempt on the same data and k has in any pass, whatever its stop
/// rule, or a given one that is less.
struct BestKnown {
  std::optional<double> inertia;      ///< empty: no run of the problem was judged as a whole
  std::optional<std::size_t> attempt; ///< that found it; empty: given
};

/// One solver on one problem from all seeds of one initialisation.
struct StartsSummary {
  std::size_t problem = 0, solver = 0;
  std::string init;
  double within = 0.0;
  std::size_t starts = 0, reached = 0;
  double median_passes = kNever; ///< over all starts, those that never get there included
  double median_ms = kNever;     ///< likewise
  double restarts_ms = kNever;   ///< time_with_restarts() in the order of seeds
};

/// What an instance of a profile is: a problem with one initial state, or a problem with an
/// initialisation, whose seeds are tried one after another.
enum class QualityMeasure { one_start, restarts };

struct QualityProfile {
  QualityMeasure measure = QualityMeasure::one_start;
  double within = 0.0;
  Profile profile;
};

struct QualityReport {
  std::vector<Machine> machines;
  Attempts attempts;
  std::vector<BestKnown> best;          ///< of each problem
  std::vector<StartsSummary> summaries; ///< by problem, initialisation, solver, quality
  std::vector<QualityProfile> profiles;
  std::vector<std::string> notes;
  ExitCode exit_code = ExitCode::ok; ///< the gravest of the attempts' ends
};

/// Throws datasets::InputError for a given inertia of a problem that is not there,
/// or of one of several that only their numbers of rows tell apart.
QualityReport make_quality_report(Attempts attempts, std::vector<Machine> machines,
                                  const std::vector<GivenBest>& given);

} // namespace clusterbench

// Do two campaigns' processes differ? A t-test on what one process is worth, not on its samples: they
// have in common what processes of one build differ by.
#pragma once

#include "harness/ledger/ratio.hpp"

#include <cstddef>
#include <optional>

namespace clusterbench {

// Assumed before a cell is looked at; scripts/compare_calibration counts what comes of it.

/// Keeps a cell whose few processes happen to agree from being trusted too much.
inline constexpr double kProcessScatter = 0.012; ///< of the logarithms of processes' medians
inline constexpr double kScatterDegrees = 4.0;   ///< that this is worth as much as
/// What two campaigns of one build differ by, however many processes they have: the machine is
/// another one a minute later.
inline constexpr double kCampaignScatter = 0.006;

inline constexpr std::size_t kLeastProcesses = 3;

/// The logarithm of new / base with its scatter: Student's t with so many degrees of freedom.
///
/// Each side is the trimmed mean of its processes' logarithms (Yuen 1974; a sixth is cut off at each
/// end, so that a disturbed process decides little). Both sides' variances are pooled, and where that is
/// less than kProcessScatter's, with this as well, weighted by degrees of freedom (Smyth 2004). Where the
/// starts are not the same, what they differ by is added. Samples that met a busy machine are left out.
class ProcessTest {
public:
  /// Empty where a side has fewer than kLeastProcesses with quiet samples: too little is known of what
  /// processes differ by.
  /// Throws std::invalid_argument for an empty round and for a cost that is not positive.
  static std::optional<ProcessTest> of(const Costs& base, const Costs& fresh);

  double log_ratio() const { return log_ratio_; }
  double standard_error() const { return standard_error_; }
  double degrees() const { return degrees_; }

  /// Of new / base; confidence: 0.95, say.
  Interval interval(double confidence) const;
  /// One-sided: of so long a new time, or a longer one, where the ratio is 1.
  double p_slower() const;
  double p_faster() const;
  /// How many processes each side would need for an interval, with the same starts, whose half width
  /// is `reach` (of the logarithm). Empty where no number would do.
  std::optional<std::size_t> rounds_for(double reach, double confidence) const;

private:
  double log_ratio_ = 0.0;
  double standard_error_ = 0.0;
  double degrees_ = 1.0;
  double process_variance_ = 0.0; ///< of one process
};

} // namespace clusterbench

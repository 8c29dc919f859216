// Do two campaigns' processes differ? Each side is worth what its fastest tenth of samples took;
// how far that is to be trusted, its processes tell and never its samples: they have in common what
// processes of one build differ by.
#pragma once

#include "harness/ledger/ratio.hpp"

#include <cstddef>
#include <optional>

namespace clusterbench {

/// Whatever else runs only adds time. So the fastest samples are the variant's own, while a median
/// is also that of the machine's guests. scripts/compare_calibration counts what comes of these
/// two.
inline constexpr double kFastestShare = 0.1;
/// What two campaigns of one build differ by, however many processes they have: the machine is
/// another one a minute later. Of the logarithm.
inline constexpr double kCampaignScatter = 0.012;
/// The same on a virtual machine, for whose processors others on the host compete: about the root
/// mean square of the logarithms in results/compare_calibration.json, of the variants on one thread
/// whose processes are many (articles 000, 003 and 004).
inline constexpr double kVirtualScatter = 0.02;
/// The same of cells that keep all processors of a virtual machine busy. They cannot see their
/// neighbours on the host, whom all processes of a campaign may have met. The root mean square of
/// the logarithms in results/compare_calibration.json, of kmeans_openmp, kmeans_simd and fcm_simd;
/// what their processes differ by is in it, too.
inline constexpr double kCrowdedScatter = 0.11;

/// The same of runs of less than a millisecond: a third of the farthest that equal builds of one
/// cell there were apart, a factor of 2.7. The root mean square is 0.26, and extremes are more
/// frequent than a normal distribution has them.
inline constexpr double kShortScatter = 0.33;

/// A bootstrap of so low a quantile of a few processes is too narrow by this factor, where
/// processes scatter to both sides; test_process_test holds the rate of false alarms.
inline constexpr double kUnseenScatter = 1.3;

inline constexpr std::size_t kLeastProcesses = 3;

/// The logarithm of new / base with its scatter: Student's t with so many degrees of freedom.
///
/// Each side is the quantile at kFastestShare of the logarithms of all its samples. Its variance is
/// that of 400 sides drawn from its processes, each taken whole (a cluster bootstrap: Davison and
/// Hinkley 1997, section 3.8). Where the starts are not the same, what they differ by is added.
/// Only the processes' part is estimated, so the others add degrees of freedom (Satterthwaite
/// 1946).
class ProcessTest {
public:
  /// Empty where a side has fewer than kLeastProcesses: too little is known of what processes
  /// differ by. campaign_scatter: one of those above.
  /// Throws std::invalid_argument for an empty round and for a cost that is not positive.
  static std::optional<ProcessTest> of(const Costs& base, const Costs& fresh,
                                       double campaign_scatter = kCampaignScatter);

  double log_ratio() const { return log_ratio_; }
  double standard_error() const { return standard_error_; }
  double campaign_scatter() const { return campaign_scatter_; }
  double degrees() const { return degrees_; }

  /// Of new / base; confidence: 0.95, say.
  Interval interval(double confidence) const;
  /// One-sided: of so long a new time, or a longer one, where the ratio is 1.
  double p_slower() const;
  double p_faster() const;
  /// How many processes each side would need, from `least` on, for an interval, with the same
  /// starts, whose half width is `reach` (of the logarithm): more of them scatter less, and tell
  /// better how far they do. Empty where it takes more than `most`.
  std::optional<std::size_t> rounds_for(double reach, double confidence, std::size_t least,
                                        std::size_t most) const;

private:
  double log_ratio_ = 0.0;
  double standard_error_ = 0.0;
  double degrees_ = 1.0;
  /// Of a side, times its number of processes: the mean of both sides.
  double process_variance_ = 0.0;
  double campaign_scatter_ = kCampaignScatter;
};

} // namespace clusterbench

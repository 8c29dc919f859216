// Robust statistics of timing samples: what a headline figure is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace clusterbench {

// Every function here throws std::invalid_argument if `samples` is empty or holds a value that is
// not finite: a NaN that slips through a sort would silently move every figure.

/// The p-quantile, 0 <= p <= 1, with linear interpolation between order statistics (type 7 of
/// Hyndman and Fan, NumPy's default).
double quantile(std::span<const double> samples, double p);

/// The middle sample, or the mean of the two middle ones.
double median(std::span<const double> samples);

/// The median of |sample - median|, not scaled to a normal distribution's sigma.
double median_absolute_deviation(std::span<const double> samples);

/// A closed interval.
struct Interval {
  double low = 0.0;
  double high = 0.0;
};

/// The percentile-bootstrap interval of the median (Efron and Tibshirani 1993, chapter 13).
/// The same samples, resamples and seed give the same bits on every machine. Throws
/// std::invalid_argument also unless 0 < confidence < 1 and resamples > 0.
Interval bootstrap_median_interval(std::span<const double> samples, double confidence = 0.95,
                                   std::size_t resamples = 2000, std::uint64_t seed = 1);

/// Samples outside [Q1 - 1.5 IQR, Q3 + 1.5 IQR] (Tukey 1977). They are counted, never removed.
struct Outliers {
  std::size_t low = 0;  ///< below the lower fence
  std::size_t high = 0; ///< above the upper fence
};
Outliers tukey_outliers(std::span<const double> samples);

/// Of fewer samples, a bootstrap's interval of the median holds it less often than it says: that of
/// three is from the least to the greatest, and holds it in 75 %.
inline constexpr std::size_t kLeastForInterval = 5;

/// All of the above of one set of samples, in the samples' unit.
struct Summary {
  std::size_t count = 0;
  double minimum = 0.0;
  double median = 0.0;
  double maximum = 0.0;
  double mad = 0.0;
  /// 95 % bootstrap interval of the median; of fewer than kLeastForInterval samples the least and
  /// the greatest.
  Interval interval;
  Outliers outliers;
};
Summary summarize(std::span<const double> samples, std::uint64_t seed = 1);

} // namespace clusterbench

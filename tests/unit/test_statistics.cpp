// Expected values were computed once with NumPy 1.24.2 and SciPy 1.10.1:
//   numpy.median(x), scipy.stats.median_abs_deviation(x), numpy.quantile(x, p), and
//   scipy.stats.bootstrap((x,), numpy.median, confidence_level=c, n_resamples=100000,
//                         method="percentile"), equal for random_state = 0, 1 and 2.
#include "harness/ledger/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace clusterbench {
namespace {

const std::vector<double> kTimes = {10.31, 10.02, 9.87,  10.55, 10.11, 14.90, 10.07, 9.95,
                                    10.40, 10.21, 10.18, 9.99,  10.63, 7.02,  10.29};
const std::vector<double> kFew = {3.5, 1.25, 9.0, 2.75, 4.5, 100.0};

TEST(Statistics, QuantilesEqualNumPy) {
  EXPECT_DOUBLE_EQ(median(kTimes), 10.18);
  EXPECT_DOUBLE_EQ(median(kFew), 4.0);
  EXPECT_DOUBLE_EQ(quantile(kTimes, 0.0), 7.02);
  EXPECT_DOUBLE_EQ(quantile(kTimes, 0.1), 9.902);
  EXPECT_DOUBLE_EQ(quantile(kTimes, 0.25), 10.005);
  EXPECT_DOUBLE_EQ(quantile(kTimes, 0.75), 10.355);
  EXPECT_DOUBLE_EQ(quantile(kTimes, 0.9), 10.598);
  EXPECT_DOUBLE_EQ(quantile(kTimes, 1.0), 14.9);
  EXPECT_DOUBLE_EQ(quantile(kFew, 0.25), 2.9375);
  EXPECT_DOUBLE_EQ(quantile(kFew, 0.75), 7.875);
}

TEST(Statistics, MedianAbsoluteDeviationEqualsSciPy) {
  EXPECT_NEAR(median_absolute_deviation(kTimes), 0.19, 1e-14);
  EXPECT_DOUBLE_EQ(median_absolute_deviation(kFew), 2.0);
}

TEST(Statistics, OutliersAreThoseBeyondTukeysFences) {
  EXPECT_EQ(tukey_outliers(kTimes).low, 1U);
  EXPECT_EQ(tukey_outliers(kTimes).high, 1U);
  EXPECT_EQ(tukey_outliers(kFew).low, 0U);
  EXPECT_EQ(tukey_outliers(kFew).high, 1U);
}

TEST(Statistics, BootstrapIntervalEqualsSciPy) {
  const Interval times = bootstrap_median_interval(kTimes, 0.8, 20000);
  EXPECT_DOUBLE_EQ(times.low, 10.07);
  EXPECT_DOUBLE_EQ(times.high, 10.29);
  const Interval few = bootstrap_median_interval(kFew, 0.95, 20000);
  EXPECT_DOUBLE_EQ(few.low, 2.0);
  EXPECT_DOUBLE_EQ(few.high, 54.5);
}

TEST(Statistics, BootstrapIsDeterministicAndSeeded) {
  std::vector<double> samples;
  std::mt19937_64 random(7);
  for (int i = 0; i < 40; ++i) {
    samples.push_back(static_cast<double>(random() % 1000003));
  }
  const Interval first = bootstrap_median_interval(samples, 0.95, 50, 3);
  const Interval again = bootstrap_median_interval(samples, 0.95, 50, 3);
  const Interval other = bootstrap_median_interval(samples, 0.95, 50, 4);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
  EXPECT_TRUE(first.low != other.low || first.high != other.high);
}

TEST(Statistics, BootstrapCoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937_64 random(11);
  const int sets = 1000;
  int covered = 0;
  for (int set = 0; set < sets; ++set) {
    std::vector<double> samples;
    for (int i = 0; i < 25; ++i) {
      const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
      samples.push_back(-std::log(uniform)); // exponential: skewed, as timings are
    }
    const Interval interval = bootstrap_median_interval(samples, 0.95, 1000);
    covered += interval.low <= std::log(2.0) && std::log(2.0) <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, sets * 91 / 100);
  EXPECT_LE(covered, sets * 99 / 100);
}

TEST(Statistics, OneSampleIsItsOwnSummary) {
  const Summary summary = summarize(std::vector<double>{2.5});
  EXPECT_EQ(summary.count, 1U);
  EXPECT_EQ(summary.median, 2.5);
  EXPECT_EQ(summary.mad, 0.0);
  EXPECT_EQ(summary.interval.low, 2.5);
  EXPECT_EQ(summary.interval.high, 2.5);
  EXPECT_EQ(summary.outliers.low + summary.outliers.high, 0U);
}

TEST(Statistics, SummaryAgreesWithItsParts) {
  const Summary summary = summarize(kTimes);
  EXPECT_EQ(summary.count, kTimes.size());
  EXPECT_EQ(summary.minimum, 7.02);
  EXPECT_EQ(summary.maximum, 14.9);
  EXPECT_EQ(summary.median, median(kTimes));
  EXPECT_EQ(summary.mad, median_absolute_deviation(kTimes));
  EXPECT_LE(summary.interval.low, summary.median);
  EXPECT_GE(summary.interval.high, summary.median);
}

TEST(Statistics, RefusesNothingAndWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& bad :
       {std::vector<double>{}, {1.0, nan}, {nan}, {infinity, 1.0}, {1.0, 2.0, -infinity}}) {
    EXPECT_THROW(median(bad), std::invalid_argument);
    EXPECT_THROW(quantile(bad, 0.5), std::invalid_argument);
    EXPECT_THROW(median_absolute_deviation(bad), std::invalid_argument);
    EXPECT_THROW(bootstrap_median_interval(bad), std::invalid_argument);
    EXPECT_THROW(tukey_outliers(bad), std::invalid_argument);
    EXPECT_THROW(summarize(bad), std::invalid_argument);
  }
  EXPECT_THROW(quantile(kFew, 1.5), std::invalid_argument);
  EXPECT_THROW(quantile(kFew, nan), std::invalid_argument);
  EXPECT_THROW(bootstrap_median_interval(kFew, 1.0), std::invalid_argument);
  EXPECT_THROW(bootstrap_median_interval(kFew, nan), std::invalid_argument);
  EXPECT_THROW(bootstrap_median_interval(kFew, 0.95, 0), std::invalid_argument);
}

} // namespace
} // namespace clusterbench

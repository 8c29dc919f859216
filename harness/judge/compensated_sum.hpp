// Sums in float64 that keep what rounding takes from them.
#pragma once

#include <cstddef>
#include <vector>

namespace clusterbench {

/// A sum and what rounding has taken from it (Neumaier 1974, with Knuth's branch-free two-sum).
class CompensatedSum {
public:
  void add(double x) {
    const double sum = sum_ + x;
    const double x_arrived = sum - sum_;
    lost_ += (sum_ - (sum - x_arrived)) + (x - x_arrived);
    sum_ = sum;
  }
  void add(const CompensatedSum& other) {
    add(other.sum_);
    lost_ += other.lost_;
  }
  double value() const { return sum_ + lost_; }

private:
  double sum_ = 0.0;
  double lost_ = 0.0;
};

/// A matrix of compensated sums; sums and lost parts lie apart so that whole rows vectorise.
class CompensatedSums {
public:
  CompensatedSums(std::size_t rows, std::size_t columns)
      : columns_(columns), sums_(rows * columns), lost_(rows * columns) {}

  /// Adds weight * x to a row.
  template <typename T>
  void add(std::size_t row, const T* x, double weight) {
    double* const sums = sums_.data() + row * columns_;
    double* const lost = lost_.data() + row * columns_;
    for (std::size_t f = 0; f < columns_; ++f) {
      const double term = weight * static_cast<double>(x[f]);
      const double sum = sums[f] + term;
      const double term_arrived = sum - sums[f];
      lost[f] += (sums[f] - (sum - term_arrived)) + (term - term_arrived);
      sums[f] = sum;
    }
  }
  void add(const CompensatedSums& other) {
    const std::size_t rows = sums_.size() / columns_;
    for (std::size_t row = 0; row < rows; ++row) {
      add(row, other.sums_.data() + row * columns_, 1.0);
    }
    for (std::size_t i = 0; i < lost_.size(); ++i) {
      lost_[i] += other.lost_[i];
    }
  }
  double value(std::size_t row, std::size_t column) const {
    return sums_[row * columns_ + column] + lost_[row * columns_ + column];
  }

private:
  std::size_t columns_;
  std::vector<double> sums_;
  std::vector<double> lost_;
};

} // namespace clusterbench

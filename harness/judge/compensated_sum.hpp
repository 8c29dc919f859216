// Sums in float64 that keep what rounding takes from them.
#pragma once

#include <cstddef>
#include <vector>

namespace clusterbench {

/// Adds x to a sum, and to `lost` what rounding takes from that (Neumaier 1974, with Knuth's
/// branch-free two-sum).
inline void add_compensated(double x, double& sum, double& lost) {
  const double before = sum;
  sum = before + x;
  const double x_arrived = sum - before;
  lost += (before - (sum - x_arrived)) + (x - x_arrived);
}

/// A sum and what rounding has taken from it.
class CompensatedSum {
public:
  void add(double x) { add_compensated(x, sum_, lost_); }
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
    add_row(columns_, x, weight, sums(row), lost(row));
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
  /// A row's sums, and what rounding has taken from them, [columns] each.
  double* sums(std::size_t row) { return sums_.data() + row * columns_; }
  double* lost(std::size_t row) { return lost_.data() + row * columns_; }
  double value(std::size_t row, std::size_t column) const {
    return sums_[row * columns_ + column] + lost_[row * columns_ + column];
  }

private:
  // Not inlined: then the compiler believes that no two arrays overlap, and makes vectors of it.
  template <typename T>
  [[gnu::noinline]] static void add_row(std::size_t columns, const T* __restrict x, double weight,
                                        double* __restrict sums, double* __restrict lost) {
    for (std::size_t f = 0; f < columns; ++f) {
      add_compensated(weight * static_cast<double>(x[f]), sums[f], lost[f]);
    }
  }

  std::size_t columns_;
  std::vector<double> sums_;
  std::vector<double> lost_;
};

} // namespace clusterbench

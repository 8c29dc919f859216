// Some consecutive rows of a dataset.
#pragma once

#include <cstddef>

namespace clusterbench::datasets {

/// Rows first ... first + count - 1.
struct RowRange {
  static constexpr std::size_t kToTheLast = ~std::size_t{0};

  std::size_t first = 0;
  std::size_t count = kToTheLast;

  bool is_whole() const { return first == 0 && count == kToTheLast; }

  /// The same rows with their number, of a dataset of n rows. Throws InputError where it has no
  /// such rows.
  RowRange of(std::size_t n) const;
};

} // namespace clusterbench::datasets

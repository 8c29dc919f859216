// The weights of points, from a user's file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace clusterbench {

template <typename T>
struct PointWeights {
  /// Reads `file`, in any form that points may have (datasets::read_file()): one column of numbers,
  /// or one row, of which there are as many as the data have `rows`. Keeps the first `taken`.
  /// points: those,
  /// [taken, d]. Throws datasets::InputError naming the file and the place in it: another number of
  /// weights, one that is negative or not finite, none above 0, and such as leave sums of weighted
  /// points no digits in T, or no room.
  PointWeights(const std::string& file, std::size_t rows, std::size_t taken,
               std::span<const T> points);

  std::vector<T> values; ///< [taken]
  std::string sha256;    ///< of all numbers of the file, before rounding
  std::string type;      ///< of those: "f32" or "f64"
};

} // namespace clusterbench

// A word that counts who has added to it: a sum in its lower 56 bits, and the number of parts in
// the upper eight. Plain C++ without CUDA.
//
// A part is an integer of 46 bits and a sign, made positive by an offset; so parts never borrow
// from the count, and 255 of them do not reach it. A word is never cleared: what it was before a
// round is subtracted, modulo 2^64.
#pragma once

#include "impls/cuda/common/magnitudes.hpp"

#include <cmath>
#include <cstdint>

namespace clusterbench::cuda {

struct CountedWord {
  static constexpr unsigned kMostParts = 255;
  static constexpr double kMost = 0x1p46; ///< magnitude of a part

  /// What a part adds. One beyond kMost counts as that, and what is no number as the least: the
  /// count must not be touched, or blocks would wait for ever.
  CLUSTERBENCH_HOST_DEVICE static std::uint64_t part(double integer) {
    const double within = fmin(fmax(integer, -kMost), kMost);
    return kOne + static_cast<std::uint64_t>(static_cast<std::int64_t>(within) + kOffset);
  }
  /// Whether so many parts have been added since.
  CLUSTERBENCH_HOST_DEVICE static bool complete(std::uint64_t now, std::uint64_t before,
                                                unsigned parts) {
    return (now - before) / kOne == parts;
  }
  /// Their sum, exactly.
  CLUSTERBENCH_HOST_DEVICE static double sum(std::uint64_t now, std::uint64_t before,
                                             unsigned parts) {
    return static_cast<double>(static_cast<std::int64_t>((now - before) % kOne) - parts * kOffset);
  }

private:
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 56;
  static constexpr std::int64_t kOffset = std::int64_t{1} << 46;
};

} // namespace clusterbench::cuda

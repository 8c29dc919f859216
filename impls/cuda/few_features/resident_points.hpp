// How many points of its share a block keeps in shared memory, [d, stride] floats and a byte of
// label each. Plain C++ without CUDA.
#pragma once

#include <cstddef>

namespace clusterbench::cuda {

struct ResidentPoints {
  std::size_t count, stride; ///< points; floats from one feature to the next

  /// Of `share` points, in `room` bytes. What does not fit begins behind whole steps of so many
  /// points, so that points are left over only once.
  static ResidentPoints of(std::size_t share, std::size_t step, std::size_t d, std::size_t room) {
    const std::size_t fits = room / (d * sizeof(float) + 1);
    const std::size_t count = fits >= share ? share : fits / step * step;
    return {count, count};
  }
  /// The same with features so far apart that lanes which have all features and the count of
  /// neighbouring points read from different banks.
  static ResidentPoints apart(std::size_t share, std::size_t step, std::size_t d,
                              std::size_t room) {
    const std::size_t apart = 32 / (d + 1), most = (31 + apart) * d * sizeof(float);
    const std::size_t count = of(share, step, d, room > most ? room - most : 0).count;
    return {count, (count + 31) / 32 * 32 + apart};
  }
};

} // namespace clusterbench::cuda

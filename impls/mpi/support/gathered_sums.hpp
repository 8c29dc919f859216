// Sums of all ranks that are the same bits on every rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <mpi.h>
#include <span>
#include <vector>

namespace clusterbench::ranks {

/// What each rank has summed, and what all of them have together. Every rank is sent what every
/// other has, and adds it up in the order of the ranks: an all-reduce of MPI may add in any order,
/// which may even differ between two runs.
class GatheredSums {
public:
  /// How many values a rank may have: MPI counts them in an int.
  static constexpr std::size_t kMost = std::numeric_limits<int>::max();

  GatheredSums() = default;
  /// size: values of a rank, at most kMost. world: how many ranks there are.
  GatheredSums(std::size_t size, std::size_t world) : own_(size), all_(size * world) {}

  /// [size] of this rank; zeros at first.
  std::span<double> own() { return own_; }

  /// Waits for all ranks. Returns [size] of all of them, added up, until the next call.
  std::span<const double> exchange() {
    const auto count = static_cast<int>(own_.size());
    MPI_Allgather(own_.data(), count, MPI_DOUBLE, all_.data(), count, MPI_DOUBLE, MPI_COMM_WORLD);
    const std::span sums = std::span(all_).first(own_.size());
    for (std::size_t first = own_.size(); first < all_.size(); first += own_.size()) {
      std::ranges::transform(sums, std::span(all_).subspan(first, own_.size()), sums.begin(),
                             std::plus{});
    }
    return sums;
  }

private:
  std::vector<double> own_; // [size]
  std::vector<double> all_; // [world, size]
};

} // namespace clusterbench::ranks

// Sums of clusters from all points: rows are sorted by label, and every run of one label is added
// up in registers before it is added to the sums. The sums are integers, so the order of rows does
// not matter, and the result is that of exact_sums.cuh to the bit.
#pragma once

#include "impls/cuda/support/exact_sums.cuh"
#include "impls/cuda/support/grid.hpp"

#include <cub/device/device_radix_sort.cuh>

#include <bit>

namespace clusterbench::cuda {

inline constexpr unsigned kRunRows = 64; ///< sorted rows that a group of lanes adds up at a time

static __global__ void count_up(unsigned* rows, std::size_t n) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    rows[i] = static_cast<unsigned>(i);
  }
}

/// kLanes lanes with 4 features each take runs of sorted rows. rows, labels: [n], and three more.
/// kFour: d is a multiple of 4, so that 16 bytes may be read at once.
template <unsigned kLanes, bool kFour>
static __global__ void __launch_bounds__(256)
    sum_segments(const PointsView points, const unsigned* rows, const unsigned* labels,
                 SumsView sums) {
  const unsigned lane = threadIdx.x % kLanes, d = points.d;
  const unsigned parts = (d + kLanes * 4 - 1) / (kLanes * 4); // of a row
  const std::size_t runs = (points.n + kRunRows - 1) / kRunRows;
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x / kLanes;
  for (std::size_t work = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
       work < runs * parts; work += stride) {
    const unsigned part = static_cast<unsigned>(work % parts);
    const unsigned feature = (part * kLanes + lane) * 4;
    const std::size_t first = work / parts * kRunRows, end = min(first + kRunRows, points.n);
    FixedWords words[4];
    unsigned label = labels[first], count = 0;
    const auto flush = [&] {
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        if (feature + e < d) {
          add_exactly(sums, std::size_t{label} * d + feature + e, words[e]);
        }
        words[e] = {};
      }
      if (part == 0 && lane == 0) {
        atomicAdd(&sums.counts[label], count);
      }
      count = 0;
    };
    for (std::size_t r = first; r < end; r += 4) { // four rows on their way at a time
      const uint4 four_rows = *reinterpret_cast<const uint4*>(rows + r);
      const uint4 four_labels = *reinterpret_cast<const uint4*>(labels + r);
      const unsigned row[4] = {four_rows.x, four_rows.y, four_rows.z, four_rows.w};
      const unsigned its_label[4] = {four_labels.x, four_labels.y, four_labels.z, four_labels.w};
      float x[4][4];
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        const std::size_t from = r + e < end ? std::size_t{row[e]} * d : 0;
        load_four<kFour>(points.exact + from, feature, d, x[e]);
      }
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        if (r + e < end) {
          if (its_label[e] != label) {
            flush();
            label = its_label[e];
          }
          ++count;
#pragma unroll
          for (unsigned f = 0; f < 4; ++f) {
            const FixedWords value = FixedWords::of(x[e][f], sums.point);
            words[f].high += value.high;
            words[f].low += value.low;
          }
        }
      }
    }
    flush();
  }
}

/// moved = labels that differ. before, labels: [n]
static __global__ void count_moved(const std::int32_t* before, const std::int32_t* labels,
                                   std::size_t n, unsigned* moved) {
  unsigned count = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    count += before[i] != labels[i] ? 1 : 0;
  }
  count = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x % 32 == 0 && count > 0) {
    atomicAdd(moved, count);
  }
}

/// The sort, and the launches.
class SortedSums {
public:
  struct Arrays {
    unsigned *rows, *sorted_rows, *sorted_labels; ///< [n + 3]
    unsigned char* scratch;                       ///< of cub
    std::size_t size;                             ///< of scratch
  };

  /// Throws std::runtime_error.
  static std::size_t scratch_bytes(std::size_t n, std::size_t k) {
    Arrays none{};
    sort(none, nullptr, n, bits_of(k));
    return none.size;
  }

  /// Does not block. Throws std::runtime_error.
  void prepare(const PointsView& points, std::size_t k, const Arrays& arrays) {
    at_ = arrays;
    bits_ = bits_of(k);
    count_up<<<blocks_at_most(points.n, 256, 4096), 256>>>(at_.rows, points.n);
    check_launch("count_up");
    const bool four = points.d % 4 == 0;
    lanes_ = points.d <= 32 ? 8 : points.d <= 64 ? 16 : 32;
    kernel_ = lanes_ == 8    ? (four ? sum_segments<8, true> : sum_segments<8, false>)
              : lanes_ == 16 ? (four ? sum_segments<16, true> : sum_segments<16, false>)
                             : (four ? sum_segments<32, true> : sum_segments<32, false>);
    blocks_ = static_cast<unsigned>(resident_blocks(kernel_, 256, 0));
  }

  /// sums = those of all points by `labels`; they must be zero before. labels: [n], none negative.
  void add_all(const PointsView& points, const std::int32_t* labels, const SumsView& sums) {
    sort(at_, labels, points.n, bits_);
    kernel_<<<blocks_, 256>>>(points, at_.sorted_rows, at_.sorted_labels, sums);
    check_launch("sum_segments");
  }

private:
  static int bits_of(std::size_t k) { return std::max(1, static_cast<int>(std::bit_width(k - 1))); }

  /// Without scratch it only sets its size.
  static void sort(Arrays& at, const std::int32_t* labels, std::size_t n, int bits) {
    check(cub::DeviceRadixSort::SortPairs(at.scratch, at.size,
                                          reinterpret_cast<const unsigned*>(labels),
                                          at.sorted_labels, at.rows, at.sorted_rows, n, 0, bits),
          "cub::DeviceRadixSort::SortPairs");
  }

  int bits_ = 1;
  unsigned lanes_ = 32, blocks_ = 0;
  void (*kernel_)(PointsView, const unsigned*, const unsigned*, SumsView) = nullptr;
  Arrays at_{};
};

} // namespace clusterbench::cuda

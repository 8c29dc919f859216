// How large rows are and how far they spread, which decides the units of sums in integers. Float
// only. A host without CUDA sees all but the kernels that measure rows in device memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#ifdef __CUDACC__
#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"

#include <cuda_runtime.h>
#endif

#ifndef CLUSTERBENCH_HOST_DEVICE
#ifdef __CUDACC__
#define CLUSTERBENCH_HOST_DEVICE __host__ __device__
#else
#define CLUSTERBENCH_HOST_DEVICE
#endif
#endif

namespace clusterbench::cuda {

/// Of rows. What is no number is left out of all but `finite`.
struct Magnitudes {
  bool finite = true;                                        ///< all values
  double longest = 0.0;                                      ///< length of the longest row
  double shortest = std::numeric_limits<double>::infinity(); ///< of those that are not zero
  std::vector<float> largest;                                ///< magnitude of every feature

  /// The power of two that makes a feature's values less than 2^bits. Tiny features get no more
  /// than 2^(100 + bits), which is finite; what they lose lies beneath, and is kept.
  float to_word(std::size_t f, int bits) const {
    const bool zero = f >= largest.size() || largest[f] == 0.0f;
    return std::ldexp(1.0f, bits - std::max(zero ? 0 : std::ilogb(largest[f]) + 1, -100));
  }
};

/// The length of the longest of [., d] rows on the host, which should be few.
inline double longest_row(std::span<const float> rows, std::size_t d) {
  double longest = 0.0; // squared
  for (std::size_t i = 0; i < rows.size(); i += d) {
    double squared = 0.0;
    for (const float x : rows.subspan(i, d)) {
      squared += static_cast<double>(x) * static_cast<double>(x);
    }
    longest = std::max(longest, squared); // leaves out what is no number
  }
  return std::sqrt(longest);
}

/// Bits of a word such that those of so many rows fit an int.
constexpr int moved_bits(std::size_t rows) {
  return std::min(20, 31 - static_cast<int>(std::bit_width(rows)));
}

/// Magnitudes::to_word() of every feature, as a kernel takes it.
template <std::size_t kMost>
struct ToWords {
  float factor[kMost];

  /// scale: what the kernel's values have been multiplied by, a power of two.
  static ToWords of(const Magnitudes& rows, int bits, float scale = 1.0f) {
    ToWords words{};
    for (std::size_t f = 0; f < kMost; ++f) {
      words.factor[f] = rows.to_word(f, bits) / scale;
    }
    return words;
  }
};

/// Powers of two that take the sums of a block's rows to less than 2^45, or hardly more if they are
/// rounded.
template <unsigned kMost>
struct SumUnits {
  double features[kMost];
  double counts;        ///< of rows, or of labels that change
  double longest, rows; ///< length of the longest row; rows of a block, at most

  static SumUnits of(const Magnitudes& of_rows, std::size_t rows_of_block) {
    const double rows = static_cast<double>(rows_of_block);
    SumUnits units{{}, unit(rows), of_rows.longest, rows};
    for (std::size_t f = 0; f < kMost; ++f) {
      const float largest = f < of_rows.largest.size() ? of_rows.largest[f] : 0.0f;
      units.features[f] = unit(rows * static_cast<double>(largest));
    }
    return units;
  }
  /// Of distances, in float, to the centroids of a run. longest_of_start: length of a centroid.
  /// Means are no longer than the longest row.
  CLUSTERBENCH_HOST_DEVICE double distances(double longest_of_start) const {
    constexpr double kLongest = 0x1p64; // more than the root of a float
    return unit(rows * fmin(1.001 * (longest + fmax(longest, longest_of_start)), kLongest));
  }

private:
  CLUSTERBENCH_HOST_DEVICE static double unit(double largest_sum) {
    return largest_sum > 0.0 ? ldexp(1.0, 44 - ilogb(largest_sum)) : 1.0;
  }
};

// ---- far rows
//
// Whether rows lie so far from the origin that rounded scores, whose errors grow with the square of
// the longest row, decide little.

/// How far the values of one feature spread: sums of their differences from the first one, so that
/// far away the spread does not drown.
struct FeatureSpread {
  double sum, squares;

  CLUSTERBENCH_HOST_DEVICE void add(float value, float first) {
    const double from_first = static_cast<double>(value) - static_cast<double>(first);
    sum += from_first;
    squares += from_first * from_first;
  }
  /// The mean squared distance of `count` values from their mean.
  CLUSTERBENCH_HOST_DEVICE double of(double count) const {
    return squares / count - sum / count * (sum / count);
  }
};

/// Why rows are left to variants with exact products; empty if they are not. longest: length of a
/// row; spread: mean squared distance of a row from the mean of all. The more centroids there are,
/// the more rows lie between two of them. Where that begins to be slower was measured on mixtures
/// (docs/ladder/any_shape.md).
inline std::string refuse_far_rows(double longest, double spread, std::size_t k, double far = 4e5) {
  const double squared = longest * longest * static_cast<double>(k * k);
  return !(spread > 0.0) || squared <= far * spread
             ? ""
             : "rows so far from the origin that rounded scores of " + std::to_string(k) +
                   " centroids decide little: exact products, or rows moved to their mean, are "
                   "faster";
}

#ifdef __CUDACC__

// ---- rows in device memory

/// Lanes of a warp that share a row of d features in sweep_rows(): a power of two, about four
/// features each.
inline unsigned lanes_of_row(std::size_t d) {
  return static_cast<unsigned>(std::min<std::size_t>(32, std::bit_ceil(ceil_div(d, 4))));
}
/// Threads of a block, and blocks, of kernels that sweep n rows.
inline constexpr unsigned kSweepThreads = 256;
inline unsigned sweep_blocks(std::size_t n, std::size_t d) {
  return blocks_at_most(std::max<std::size_t>(n, 1) * lanes_of_row(d), kSweepThreads, 1024);
}

/// All threads: a sweep over [n, d] rows, kAtOnce of them at a time by each group of `lanes` lanes.
/// of_feature(f, x): x[kAtOnce] of these rows, `absent` behind the last one, to one lane of the
/// group; of_rows(i, step): when rows i, i + step, ... are through, to all lanes of the warp
/// together.
template <unsigned kAtOnce, typename T, typename OfFeature, typename OfRows>
__device__ void sweep_rows(const T* rows, std::size_t n, unsigned d, unsigned lanes, T absent,
                           OfFeature of_feature, OfRows of_rows) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x / lanes;
  std::size_t i = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) / lanes;
  for (std::size_t first = i - threadIdx.x % 32 / lanes; first < n; // the warp's first row
       first += kAtOnce * step, i += kAtOnce * step) {
    for (unsigned f = threadIdx.x % lanes; f < d; f += lanes) {
      T x[kAtOnce]; // on their way together
#pragma unroll
      for (unsigned r = 0; r < kAtOnce; ++r) {
        x[r] = i + r * step < n ? rows[(i + r * step) * d + f] : absent;
      }
      of_feature(f, x);
    }
    of_rows(i, step);
  }
}

/// Raises a word to `value`. Few threads find more than is there, so few wait for one another.
template <typename Word>
__device__ void raise_maximum(Word* to, Word value) {
  if (value > *static_cast<volatile Word*>(to)) {
    atomicMax(to, value);
  }
}

/// What measure_rows() raises, zero before: squared lengths as the integers of doubles, and then
/// the magnitudes of features as those of floats; of numbers that are not negative they have the
/// same order. The shortest length is inverted, so that it grows.
enum : unsigned { kLongestWord, kShortestWord, kNotFiniteWord, kLargestWords };

/// rows: [n, d], of which magnitudes of features become floats. Dynamic shared memory: d words.
template <typename T>
static __global__ void measure_rows(const T* rows, std::size_t n, unsigned d, unsigned lanes,
                                    unsigned long long* words) {
  constexpr unsigned kAtOnce = 4;
  extern __shared__ unsigned s_largest[];
  for (unsigned f = threadIdx.x; f < d; f += blockDim.x) {
    s_largest[f] = 0;
  }
  __syncthreads(); // the words are zero
  double squared[kAtOnce] = {}, longest = 0.0, shortest = INFINITY;
  bool finite = true;
  sweep_rows<kAtOnce>(
      rows, n, d, lanes, T{0},
      [&](unsigned f, const T(&x)[kAtOnce]) {
        T largest = 0;
#pragma unroll
        for (unsigned r = 0; r < kAtOnce; ++r) {
          largest = fmax(largest, fabs(x[r])); // leaves out what is no number
          finite = finite && fabs(x[r]) < INFINITY;
          squared[r] += static_cast<double>(x[r]) * static_cast<double>(x[r]);
        }
        raise_maximum(&s_largest[f], __float_as_uint(static_cast<float>(largest)));
      },
      [&](std::size_t, std::size_t) {
#pragma unroll
        for (unsigned r = 0; r < kAtOnce; ++r) {
          for (unsigned offset = 1; offset < lanes; offset *= 2) {
            squared[r] += __shfl_xor_sync(kAllLanes, squared[r], static_cast<int>(offset));
          }
          longest = fmax(longest, squared[r]);
          shortest = squared[r] > 0.0 ? fmin(shortest, squared[r]) : shortest;
          squared[r] = 0.0;
        }
      });
  for (int offset = 16; offset > 0; offset /= 2) {
    longest = fmax(longest, __shfl_xor_sync(kAllLanes, longest, offset));
    shortest = fmin(shortest, __shfl_xor_sync(kAllLanes, shortest, offset));
  }
  const auto bits = [](double value) {
    return static_cast<unsigned long long>(__double_as_longlong(value));
  };
  if (threadIdx.x % 32 == 0) {
    raise_maximum(&words[kLongestWord], bits(longest));
    raise_maximum(&words[kShortestWord], ~bits(shortest));
  }
  if (!finite) {
    raise_maximum(&words[kNotFiniteWord], 1ull);
  }
  __syncthreads(); // the block's magnitudes are there
  for (unsigned f = threadIdx.x; f < d; f += blockDim.x) {
    raise_maximum(&words[kLargestWords + f], static_cast<unsigned long long>(s_largest[f]));
  }
}

/// Of rows in device memory, [., d], of at most 12,000 features. Blocks. Throws std::runtime_error.
template <typename T>
Magnitudes device_magnitudes(std::span<const T> d_rows, std::size_t d) {
  const std::size_t n = d_rows.size() / d;
  DeviceBuffer<unsigned long long> d_words(kLargestWords + d);
  d_words.zero();
  measure_rows<<<sweep_blocks(n, d), kSweepThreads, d * sizeof(unsigned)>>>(
      d_rows.data(), n, static_cast<unsigned>(d), lanes_of_row(d), d_words.data());
  check_launch("measure_rows");
  std::vector<unsigned long long> words(d_words.size());
  d_words.download(words);
  const auto length = [](unsigned long long bits) {
    return std::sqrt(std::bit_cast<double>(bits));
  };
  Magnitudes found;
  found.finite = words[kNotFiniteWord] == 0;
  found.longest = length(words[kLongestWord]);
  found.shortest = length(~words[kShortestWord]);
  for (std::size_t f = 0; f < d; ++f) {
    found.largest.push_back(std::bit_cast<float>(static_cast<unsigned>(words[kLargestWords + f])));
  }
  return found;
}

/// A block a feature: its spread over `count` of [n, d] rows, at equal distances.
static __global__ void measure_spread(const float* rows, std::size_t n, unsigned d, unsigned count,
                                      double* spread) {
  __shared__ FeatureSpread s_parts[kSweepThreads / 32];
  FeatureSpread own{};
  for (std::size_t s = threadIdx.x; s < count; s += kSweepThreads) {
    own.add(rows[s * n / count * d + blockIdx.x], rows[blockIdx.x]);
  }
  own = {over_lanes<32>(own.sum), over_lanes<32>(own.squares)};
  if (threadIdx.x % 32 == 0) {
    s_parts[threadIdx.x / 32] = own;
  }
  __syncthreads(); // those of all warps are there
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < kSweepThreads / 32; ++warp) {
      own.sum += s_parts[warp].sum;
      own.squares += s_parts[warp].squares;
    }
    spread[blockIdx.x] = own.of(count);
  }
}

/// Throws Refusal if [., d] rows in device memory lie far from the origin for k clusters, by a
/// sample of them. longest: see Magnitudes. Blocks. Throws std::runtime_error.
inline void throw_if_far(std::span<const float> d_rows, std::size_t d, std::size_t k,
                         double longest, double far = 4e5) {
  constexpr std::size_t kSample = 16384;
  const std::size_t n = d_rows.size() / d;
  DeviceBuffer<double> d_spread(d);
  measure_spread<<<blocks_for(d, 1), kSweepThreads>>>(d_rows.data(), n, static_cast<unsigned>(d),
                                                      static_cast<unsigned>(std::min(n, kSample)),
                                                      d_spread.data());
  check_launch("measure_spread");
  std::vector<double> spread(d);
  d_spread.download(spread);
  const std::string reason =
      refuse_far_rows(longest, std::accumulate(spread.begin(), spread.end(), 0.0), k, far);
  if (!reason.empty()) {
    throw Refusal(reason);
  }
}

/// The centroids of a start on the host, in `to`: so few that this is quicker than a kernel that
/// measures them. Blocks. Throws std::runtime_error.
inline std::span<const float> start_on_host(std::span<const float> d_centroids,
                                            PinnedBuffer<float>& to) {
  copy_values(d_centroids, to.data());
  check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize after a copy of the start");
  return to.span();
}

#endif // __CUDACC__

} // namespace clusterbench::cuda

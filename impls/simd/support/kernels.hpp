// The table of kernels that every instruction set fills: what the variants call, and what the tests
// force one instruction set by. Compiled into files of different instruction sets, so plain data
// only: no standard containers, no inline functions but those that are always inlined.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clusterbench::simd {

/// Some points that stay in the cache while they are labelled and then summed.
template <typename T>
struct Chunk {
  const T* points = nullptr;  ///< [count, d] row-major
  const T* columns = nullptr; ///< the same in blocks of `lanes` points, each [d, lanes]; or null
  std::size_t count = 0;
  std::size_t d = 0;
};

/// Labels of a chunk from centroids [k, d]; `labels` has room for `count` rounded up to kRoundUp.
/// distances, of the same size or null, gets the squared distances to the nearest centroid.
template <typename T>
using AssignKernel = void (*)(const Chunk<T>& chunk, const T* centroids, std::size_t k,
                              std::int32_t* labels, T* distances);

/// Adds the points of a chunk to sums [k, d] and counts [k] of their clusters. A label of -1, as
/// the lanes beyond the last point have, belongs to none. sum_by_label adds to scratch instead,
/// [scratch_size(k, d)], from where collect_sums moves everything, leaving zeros.
template <typename T>
using SumKernel = void (*)(const Chunk<T>& chunk, const std::int32_t* labels, std::size_t k,
                           T* scratch, double* sums, double* counts);

/// Adds the points of a chunk, each times its weight [count], to sums [k, d] and the weights to
/// totals [k] of their clusters. Reads rows only.
template <typename T>
using WeightedSumKernel = void (*)(const Chunk<T>& chunk, const T* weights,
                                   const std::int32_t* labels, double* sums, double* totals);

/// Sums of float values as integers; fixed_sums.hpp makes it.
struct FixedPoint {
  const double* scales = nullptr; ///< [padded<double>(d)] units of a sum in 1; 0 beyond d
  const float* end = nullptr;     ///< of all points: what lies before it may be read
};

/// Added to a double it leaves an integer in the last bits.
inline constexpr double kIntegersFrom = 0x1.8p52;

/// Moves the rows whose labels are not the `previous` ones from one cluster's sums to another's,
/// and remembers their labels; -1: it was in none. Returns how many have changed. sums: [k,
/// padded<double>(d)], for each of a cluster's points off by the bits of kIntegersFrom.
using MoveKernel = std::size_t (*)(const Chunk<float>& chunk, const std::int32_t* labels,
                                   std::int32_t* previous, const FixedPoint& fixed,
                                   std::uint64_t* sums, double* counts);

/// Both at once; the parameters as above. pass_in_registers takes null for labels that nobody
/// wants.
template <typename T>
using PassKernel = void (*)(const Chunk<T>& chunk, const T* centroids, std::size_t k,
                            std::int32_t* labels, T* distances, T* scratch, double* sums,
                            double* counts);

/// What sieve_columns compares points with; sieve.hpp makes it once a pass, for all threads.
template <typename T>
struct Sieve {
  const T* panels = nullptr; ///< [groups, d, sieve_group] of -(c - origin)
  const T* halves =
      nullptr; ///< [groups, sieve_group] of |c - origin|^2 / 2; beyond k more than any score
  std::size_t groups = 0;
  T per_norm = 0,
    always = 0; ///< a score within per_norm |x - origin| + always of the least may win
};

/// Labels and distances as AssignKernel has them; columns and norms [count, rounded up] are those
/// of x - origin, points and centroids as they came. minima: room for [groups, kRoundUp].
template <typename T>
using SieveKernel = void (*)(const Chunk<T>& chunk, const T* norms, const Sieve<T>& sieve,
                             const T* centroids, std::size_t k, T* minima, std::int32_t* labels,
                             T* distances);

inline constexpr std::size_t kRoundUp = 64; ///< points; a multiple of every kernel's step
[[gnu::always_inline]] constexpr std::size_t rounded_up(std::size_t n) {
  return (n + kRoundUp - 1) / kRoundUp * kRoundUp;
}

inline constexpr std::size_t kSmallD = 16; ///< features that assign_small_d keeps in registers

inline constexpr std::size_t kPassD = 3, kPassK = 8; ///< the largest that pass_in_registers has

template <typename T>
struct Kernels {
  const char* isa;
  std::size_t lanes;
  /// Writes the points of a chunk, less the origin [d] if it is not null, as columns of `count`
  /// rounded up, in an array that begins with a cache line. The next chunk follows in memory.
  void (*columns_of_rows)(const Chunk<T>& chunk, const T* origin, T* columns);
  /// The same, and their squared lengths, of as many.
  void (*columns_and_squares)(const Chunk<T>& chunk, const T* origin, T* columns, T* squares);
  AssignKernel<T> assign_small_d[kSmallD + 1]; ///< by d; [0] is unused
  AssignKernel<T> assign_columns;              ///< any d
  SieveKernel<T> sieve_columns;                ///< any d; many centroids
  std::size_t sieve_group;                     ///< centroids
  PassKernel<T> pass_by_rows;                  ///< reads rows only; scratch
  SumKernel<T> sum_by_mask;                    ///< reads columns only
  SumKernel<T> sum_by_label;                   ///< reads rows only; scratch
  SumKernel<T> sum_in_double;                  ///< reads rows only; no scratch
  MoveKernel move_rows;                        ///< reads rows only; null for double
  void (*collect_sums)(std::size_t k, std::size_t d, T* scratch, double* sums, double* counts);
  PassKernel<T> pass_in_registers[kPassD][kPassK]; ///< by d - 1 and k - 1; columns only
  /// Fuzzy c-means: squared distances [k, kRoundUp] of a chunk of at most kRoundUp samples to
  /// centres [k, padded(d)], zeros behind their features. alone: no sums follow.
  void (*distances_of_rows)(const Chunk<T>& chunk, const T* centres, std::size_t k, T* distances,
                            bool alone);
  /// Memberships u [k, kRoundUp] from such distances; exponent: 1 / (m - 1).
  void (*memberships_of)(const T* distances, std::size_t k, T exponent, T* u);
  /// Turns memberships into weights u^m, adds those of `count` samples to totals [k], and returns
  /// their products with the distances added up; distances may be null.
  double (*raise_to_weights)(T* u, std::size_t k, std::size_t count, T m, const T* distances,
                             double* totals);
  /// Adds the samples of such a chunk, times weights [k, kRoundUp], to sums [k, padded(d)]. alone:
  /// no distances came before.
  void (*weighted_sums_of_rows)(const Chunk<T>& chunk, const T* weights, std::size_t k, T* sums,
                                bool alone);
  /// The sum of square roots of count values.
  double (*sum_of_roots)(const T* values, std::size_t count);
  /// The same of points with weights [count].
  WeightedSumKernel<T> sum_with_weights;
  double (*sum_of_weighted_roots)(const T* values, const T* weights, std::size_t count);
};

template <typename T>
[[gnu::always_inline]] constexpr std::size_t padded(std::size_t d) {
  constexpr std::size_t kLanes = 64 / sizeof(T);
  return (d + kLanes - 1) / kLanes * kLanes;
}

/// How many copies of the sums sum_by_label keeps.
[[gnu::always_inline]] constexpr std::size_t sum_copies(std::size_t d) {
  return d < 64 ? 4 : 1;
}

/// Values that sum_by_label needs: copies of [k, d + 1] with padded rows.
template <typename T>
[[gnu::always_inline]] constexpr std::size_t scratch_size(std::size_t k, std::size_t d) {
  return sum_copies(d) * k * padded<T>(d + 1);
}

/// The same sieve with values of bfloat16, two of them in a word; pair_sieve.hpp makes it.
struct PairSieve {
  const std::uint32_t* panels = nullptr; ///< of -(c - origin), in the order of the kernel
  const float* halves = nullptr;         ///< as in Sieve
  std::size_t groups = 0;                ///< of 8; even for tiles, which take four at once
  std::size_t words = 0;                 ///< pairs of features; padded with zeros
  float per_norm = 0, per_residual = 0, always = 0;
};

/// The points of a chunk in bfloat16 less the origin, in blocks of 16 points, each [words, 16].
struct PairColumns {
  const std::uint32_t* words;
  const float* norms;     ///< at least |x^|, x^ as rounded
  const float* residuals; ///< at least |x - origin - x^|
};

using PairSieveKernel = void (*)(const Chunk<float>& chunk, const PairColumns& columns,
                                 const PairSieve& sieve, const float* centroids, std::size_t k,
                                 float* minima, std::int32_t* labels, float* distances);

/// The same sieve with values of 16-bit integers, two of them in a word; short_sieve.hpp makes it.
struct ShortSieve {
  const std::uint32_t* panels = nullptr; ///< [groups, words, kPairGroup] of -c in units
  const std::int32_t* halves = nullptr;  ///< [groups, kPairGroup] of |c|^2 / 2
  std::size_t groups = 0;
  std::size_t words = 0;   ///< pairs of features
  std::int32_t margin = 0; ///< a score so much above the least may win
};

/// columns: of the points in units, in blocks of 16 points, each [words, 16].
template <typename T>
using ShortSieveKernel = void (*)(const Chunk<T>& chunk, const std::uint32_t* columns,
                                  const ShortSieve& sieve, const T* centroids, std::size_t k,
                                  std::int32_t* minima, std::int32_t* labels, T* distances);

inline constexpr std::size_t kPairGroup = 8; ///< centroids
inline constexpr std::size_t kTile = 16;     ///< rows of a tile, and words of each

/// The kernels for bfloat16, by AVX-512 and by AMX; dispatch.hpp says whether they may be called.
void sieve_pairs_avx512(const Chunk<float>& chunk, const PairColumns& columns,
                        const PairSieve& sieve, const float* centroids, std::size_t k,
                        float* minima, std::int32_t* labels, float* distances);
void sieve_pairs_amx(const Chunk<float>& chunk, const PairColumns& columns, const PairSieve& sieve,
                     const float* centroids, std::size_t k, float* minima, std::int32_t* labels,
                     float* distances);

/// The kernels for 16-bit integers, by AVX512_VNNI.
void sieve_shorts_avx512(const Chunk<float>& chunk, const std::uint32_t* columns,
                         const ShortSieve& sieve, const float* centroids, std::size_t k,
                         std::int32_t* minima, std::int32_t* labels, float* distances);
void sieve_shorts_avx512(const Chunk<double>& chunk, const std::uint32_t* columns,
                         const ShortSieve& sieve, const double* centroids, std::size_t k,
                         std::int32_t* minima, std::int32_t* labels, double* distances);

/// The kernels for one instruction set; dispatch.hpp says which of them may be called.
template <typename T>
const Kernels<T>* portable_kernels();
template <typename T>
const Kernels<T>* avx2_kernels();
template <typename T>
const Kernels<T>* avx512_kernels();

} // namespace clusterbench::simd

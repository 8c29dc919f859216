// The sieve with products of pairs of bfloat16, by the tiles of AMX: 32 points by 32 centroids at a
// time, 16 by 16 an instruction. A row of a tile of results is a centroid, a column a point, so a
// row is a register of scores as the other kernels have them. Compiled with -mamx-tile -mamx-bf16.
#include "impls/simd/support/sieve_columns.hpp"
#include "impls/simd/support/vector_avx512.hpp"

namespace clusterbench::simd {

namespace {

/// A type of its own, so that no other instruction set shares its kernels.
struct V : Vec<float, 64> {};

/// All tiles: 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr std::size_t kWords = kTile * kTile; ///< of a tile

/// Adds words first to last of the products of two tiles of centroids by two of points to tiles 0
/// to 3.
[[gnu::always_inline]] inline void add_products(const std::uint32_t* x, const std::uint32_t* c,
                                                std::size_t words, std::size_t first,
                                                std::size_t last) {
  for (std::size_t w = first; w < last; w += kTile) {
    _tile_loadd(4, c + w * kTile, 64);
    _tile_loadd(6, x + w * kTile, 64);
    _tile_loadd(7, x + (words + w) * kTile, 64);
    _tile_loadd(5, c + (words + w) * kTile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

[[gnu::always_inline]] inline void clear_products() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/// products [2, 2, 16, 16]: tiles of centroids by tiles of points.
[[gnu::always_inline]] inline void store_products(float* products) {
  _tile_stored(0, products, 64);
  _tile_stored(1, products + kWords, 64);
  _tile_stored(2, products + 2 * kWords, 64);
  _tile_stored(3, products + 3 * kWords, 64);
}

/// The products of the next tiles are made a quarter at a time, between the scores of these:
/// neither waits for the other. Meanwhile memory is asked for the rows of the points, [2 * kTile,
/// d], which comparing and summing are going to read.
[[gnu::always_inline]] inline Scores<V> scores_of_tiles(const std::uint32_t* x,
                                                        const PairSieve& sieve, const float* rows,
                                                        std::size_t d, float* minima) {
  Scores<V> found = no_scores<V>();
  alignas(64) float products[2][4 * kWords];
  const std::size_t words = sieve.words, steps = words / kTile;
  const std::size_t quads = sieve.groups / 4, lines = (2 * d + quads - 1) / quads; // of a quad
  clear_products();
  add_products(x, sieve.panels, words, 0, words);
  store_products(products[0]);
  for (std::size_t q = 0; q < quads; ++q) {
    const std::size_t next = q + 1 < quads ? q + 1 : 0; // after the last, products nobody reads
    clear_products();
    for (std::size_t l = 0; l < lines; ++l, rows += kTile) {
      __builtin_prefetch(rows, 0, 2);
    }
#pragma GCC unroll 4
    for (std::size_t part = 0; part < 4; ++part) { // eight rows of the upper or the lower two tiles
      add_products(x, sieve.panels + next * 4 * kPairGroup * words, words, steps * part / 4 * kTile,
                   steps * (part + 1) / 4 * kTile);
      const float* sums = products[q % 2] + part / 2 * 2 * kWords + part % 2 * kPairGroup * kTile;
      V::Reg score[kPairGroup][2];
#pragma GCC unroll 16
      for (std::size_t t = 0; t < kPairGroup; ++t) {
        const V::Reg half = V::broadcast(sieve.halves[(4 * q + part) * kPairGroup + t]);
        score[t][0] = half + V::load(sums + t * kTile);
        score[t][1] = half + V::load(sums + kWords + t * kTile);
      }
      take_group<V>(score, 4 * q + part, minima, found);
    }
    store_products(products[1 - q % 2]);
  }
  return found;
}

} // namespace

void sieve_pairs_amx(const Chunk<float>& chunk, const PairColumns& columns, const PairSieve& sieve,
                     const float* centroids, std::size_t k, float* minima, std::int32_t* labels,
                     float* distances) {
  const TileConfig config;
  _tile_loadconfig(&config);
  label_by_scores<V>(
      chunk, centroids, k, minima, labels, distances,
      [&](std::size_t i) __attribute__((always_inline)) {
        return scores_of_tiles(columns.words + i * sieve.words, sieve, chunk.points + i * chunk.d,
                               chunk.d, minima);
      },
      [&](std::size_t i) __attribute__((always_inline)) {
        return V::fma(V::load(columns.norms + i), V::broadcast(sieve.per_norm),
                      V::fma(V::load(columns.residuals + i), V::broadcast(sieve.per_residual),
                             V::broadcast(sieve.always)));
      });
  _tile_release();
}

} // namespace clusterbench::simd

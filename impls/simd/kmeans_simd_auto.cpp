// K-means by whichever of the variants of vectors is fastest for the shape: one table, read from
// the top.
//
// Changed since kmeans_simd_int16: nothing is computed here. Narrow scores need a copy of the
//   points and a pass over them that finds their unit, and win where a point has features enough to
//   be worth it; kmeans_simd wins where points are a few registers. Of the lines whose bounds hold,
//   the harness takes the first whose variant refuses neither the shape nor the points. Processors
//   without the instructions of a line's variant, and weights come to kmeans_simd that way.
// Source: measured on an AMD EPYC with AVX512_VNNI (docs/ladder/cpu_map.md); the line of AMX, at
//   one shape (docs/studies.md), and float64 on Xeons.
// Cost per iteration: that of the variant it picks.
// Limits: picked by the time of an iteration on mixtures. Preparing a narrow copy takes longer, and
//   a point far from all others makes it worthless.
#include "impls/contract.hpp"

#include <array>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

struct Choice {
  std::size_t least_d, least_k, most_d, most_k;
  const char* variant;
};
constexpr std::array kTable{
    Choice{1, 1, 3, kAny, "kmeans_simd"}, // points stay in registers while centroids pass
    Choice{1, 1, 4, 40, "kmeans_simd"},   // the same
    Choice{1, 1, 15, 4, "kmeans_simd"},   // few centroids: nothing is saved by narrow scores
    Choice{64, 256, kAny, kAny, "kmeans_simd_amx"}, // products of tiles
    Choice{1, 1, kAny, kAny, "kmeans_simd_int16"},  // half the bytes, twice the products
    Choice{1, 1, kAny, kAny, "kmeans_simd"},
};
constexpr std::array kDoubles{
    Choice{1, 1, 2, kAny, "kmeans_simd"}, // as for float
    Choice{1, 1, 4, 12, "kmeans_simd"},
    Choice{1, 1, 16, 4, "kmeans_simd"},
    Choice{1, 1, kAny, 3, "kmeans_simd"},          // rows are read for the sums, too
    Choice{1, 1, kAny, kAny, "kmeans_simd_int16"}, // four times the products
    Choice{1, 1, kAny, kAny, "kmeans_simd"},
};

template <typename T>
class KmeansSimdAuto final : public Variant<T> {
public:
  std::vector<std::string> delegates(const Shape& shape) const override {
    if (shape.weighted) {
      return {"kmeans_simd"};
    }
    const std::span<const Choice> table =
        std::is_same_v<T, float> ? std::span<const Choice>(kTable) : kDoubles;
    std::vector<std::string> names;
    for (const Choice& line : table) {
      if (line.least_d <= shape.d && shape.d <= line.most_d && line.least_k <= shape.k &&
          shape.k <= line.most_k) {
        names.emplace_back(line.variant);
      }
    }
    return names;
  }
  void prepare(const Shape&, const Points<T>&) override { throw only_chooses(); }
  void run(const Start<T>&, Answer<T>&, Observer<T>&) override { throw only_chooses(); }

private:
  static std::logic_error only_chooses() {
    return std::logic_error("kmeans_simd_auto only chooses");
  }
};

const Registration
    registration({.name = "kmeans_simd_auto",
                  .idea = "the fastest variant of vectors for the shape, from one table",
                  .source = "measured: results/tables/cpu_map.json",
                  .takes_weights = true,
                  .previous = "kmeans_simd_int16"},
                 both_precisions<KmeansSimdAuto>());

} // namespace
} // namespace clusterbench

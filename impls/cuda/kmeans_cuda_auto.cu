// K-means by whichever of the CUDA variants is fastest for the shape: one table, read from the top.
//
// Changed since kmeans_cuda_fused: nothing is computed here. The table says which variant was
//   fastest on a measured grid of shapes (results/tables/gpu_shapes.json) and at its own borders
//   (gpu_borders.json). Of the lines whose bounds hold, the harness takes the first whose variant
//   refuses neither the shape nor the points; where that refuses a start, the next one. Several
//   refuse rows far from the origin (magnitudes.hpp), where those further down are faster. A test
//   compares the table with both measurements: never more than 10 % behind the best.
// Source: one NVIDIA H200; single runs beyond these shapes and borders (docs/ladder/any_shape.md).
// Cost per iteration: that of the variant it picks.
// Limits: Meta states the loosest of what the tables name; up to k = 16 and 512 features, and up to
//   64 of both, the picks of float give the same bits in every run on devices of compute capability
//   9.0, and those of double, whose table is the second, up to 1024 features. Picked by the time of
//   20 iterations on mixtures: where more points change their cluster, or under the rule `loss`, or
//   with prepare(), others may be faster.
#include "impls/contract.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

struct Choice {
  std::size_t n, d, k; ///< up to this many
  std::string_view variant;
};
constexpr std::array kTable{
    Choice{50000, 4, 8, "kmeans_cuda_persistent"}, // points stay where they are
    Choice{50000, 8, 1, "kmeans_cuda_moves"},      // so do sums, and what moves changes them
    Choice{kAny, 8, 1, "kmeans_cuda_boxes"},       // few points are between centroids
    Choice{200000, 4, 8, "kmeans_cuda_persistent"},
    Choice{300000, 3, 8, "kmeans_cuda_persistent"},
    Choice{70000, 4, 64, "kmeans_cuda_moves"},
    Choice{150000, 4, 24, "kmeans_cuda_moves"},
    Choice{kAny, 2, 64, "kmeans_cuda_boxes"},
    Choice{300000, 4, 24, "kmeans_cuda_moves"},
    Choice{kAny, 4, 64, "kmeans_cuda_boxes"},
    Choice{300000, 9, 32, "kmeans_cuda_moves"},
    Choice{150000, 16, 32, "kmeans_cuda_moves"},
    Choice{300000, 12, 8, "kmeans_cuda_moves"},
    Choice{kAny, 16, 1, "kmeans_cuda_moves"},
    Choice{kAny, 8, 8, "kmeans_cuda_persistent"},
    Choice{20000, 9, 64, "kmeans_cuda_moves_wgmma"}, // few rows move
    Choice{200000, 6, 64, "kmeans_cuda_boxes"},
    Choice{1000000, 8, 16, "kmeans_cuda_moves"},
    Choice{1000000, 9, 12, "kmeans_cuda_moves"},
    Choice{20000000, 6, 32, "kmeans_cuda_boxes"},
    Choice{kAny, 9, 12, "kmeans_cuda_persistent"},
    Choice{70000, 64, 8, "kmeans_cuda_moves_wgmma"},
    Choice{100000, 64, 8, "kmeans_cuda_half_rows"}, // half the bytes
    Choice{100000, 64, 24, "kmeans_cuda_moves_wgmma"},
    Choice{200000, 9, 64, "kmeans_cuda_half_rows"},
    Choice{50000, 64, 64, "kmeans_cuda_moves_wgmma"},
    Choice{1500000, 64, 64, "kmeans_cuda_half_rows"},
    Choice{2500000, 32, 64, "kmeans_cuda_half_rows"},
    Choice{5000000, 24, 64, "kmeans_cuda_half_rows"},
    Choice{20000000, 16, 64, "kmeans_cuda_half_rows"},
    Choice{20000000, 9, 40, "kmeans_cuda_cells"}, // what it refuses: warps share their block's sums
    Choice{kAny, 64, 64, "kmeans_cuda_fused_wgmma"}, // rows are gone from the cache
    Choice{4000, 512, 16, "kmeans_cuda_resident"},   // all passes in one launch, rows stay
    Choice{100000, 256, 8, "kmeans_cuda_fused"},     // one launch a pass
    Choice{10000, 512, 8, "kmeans_cuda_fused"},
    Choice{50000, 512, 4, "kmeans_cuda_fused"},
    Choice{7500, 256, 64, "kmeans_cuda_resident"},
    Choice{50000, 128, 16, "kmeans_cuda_fused"},
    Choice{5000, 1000, 16, "kmeans_cuda_resident"},
    Choice{kAny, kAny, 1, "kmeans_cuda_hamerly"}, // no row can change its cluster
    Choice{300000, 256, 5, "kmeans_cuda_fused"},
    Choice{kAny, 100, 8, "kmeans_cuda_fused"},
    Choice{kAny, 8, 64, "kmeans_cuda_cells"},  // rows far from the origin, like the next
    Choice{kAny, 64, 64, "kmeans_cuda_wgmma"}, // which moves rows to their mean
    Choice{kAny, 4, 100, "kmeans_cuda_boxes"}, // more clusters: four lanes share a box
    Choice{5000000, 4, 256, "kmeans_cuda_boxes"},
    Choice{5000, 2, 256, "kmeans_cuda_cells"},   // where boxes are refused
    Choice{kAny, 1, kAny, "kmeans_cuda_nearby"}, // few centroids are near a box
    Choice{4000, 128, 128, "kmeans_cuda_resident"},
    Choice{50000, 6, 80, "kmeans_cuda_cells"}, // one launch for few points, too
    Choice{1000000, 6, 72, "kmeans_cuda_cells"},
    Choice{25000, 6, 3000, "kmeans_cuda_packed"}, // all of a pass but the means in one launch
    Choice{kAny, 2, kAny, "kmeans_cuda_nearby"},
    Choice{kAny, 4, 204, "kmeans_cuda_boxes"},        // three and four features
    Choice{150000, 6, kAny, "kmeans_cuda_packed"},    // boxes are too large
    Choice{120000, 6, kAny, "kmeans_cuda_certified"}, // more centroids than packed has room for
    Choice{kAny, 3, kAny, "kmeans_cuda_nearby"},
    Choice{300000, 6, kAny, "kmeans_cuda_packed"}, // four to six features
    Choice{200000, 6, kAny, "kmeans_cuda_certified"},
    Choice{kAny, 4, kAny, "kmeans_cuda_nearby"},
    Choice{3000000, 6, 256, "kmeans_cuda_packed"}, // five and six
    Choice{1000000, 6, kAny, "kmeans_cuda_packed"},
    Choice{500000, 6, kAny, "kmeans_cuda_certified"},
    Choice{kAny, 5, kAny, "kmeans_cuda_nearby"},
    Choice{20000000, 6, 256, "kmeans_cuda_packed"}, // six
    Choice{3000000, 6, kAny, "kmeans_cuda_packed"},
    Choice{1700000, 6, kAny, "kmeans_cuda_certified"},
    Choice{kAny, 6, kAny, "kmeans_cuda_nearby"},     // and devices before 9.0
    Choice{2000, 2048, 128, "kmeans_cuda_resident"}, // rows stay in shared memory
    Choice{2000, 128, 256, "kmeans_cuda_resident"},
    Choice{kAny, 24, kAny, "kmeans_cuda_packed"}, // pairs of scores in registers
    Choice{4000, 128, 256, "kmeans_cuda_resident"},
    Choice{250000, 64, kAny, "kmeans_cuda_packed"},
    Choice{600000, 64, 1100, "kmeans_cuda_packed"},
    Choice{kAny, 64, 800, "kmeans_cuda_packed"},
    Choice{kAny, 32, kAny, "kmeans_cuda_packed"},
    Choice{kAny, 32, kAny, "kmeans_cuda_certified"}, // comparing outweighs multiplying
    Choice{12000, kAny, kAny, "kmeans_cuda_wgmma"},  // a product of matrices, none in memory
    Choice{50000, 64, kAny, "kmeans_cuda_wgmma"},
    Choice{25000, 512, 3000, "kmeans_cuda_wgmma"},
    Choice{50000, 512, 500, "kmeans_cuda_wgmma"},
    Choice{100000, 128, 1000, "kmeans_cuda_wgmma"},
    Choice{100000, 256, 700, "kmeans_cuda_wgmma"},
    Choice{300000, 128, 600, "kmeans_cuda_wgmma"},
    Choice{kAny, 256, 450, "kmeans_cuda_wgmma"},
    Choice{kAny, kAny, 300, "kmeans_cuda_wgmma"},
    Choice{kAny, kAny, kAny, "kmeans_cuda_hamerly"}, // what it leaves alone is worth its lists
    Choice{kAny, kAny, kAny, "kmeans_cuda_wgmma"},   // without room for its copies
    Choice{kAny, kAny, kAny, "kmeans_cublas"},       // devices before 9.0
};

/// Of float64: all but the last read narrower copies, and few rows in full precision.
constexpr std::array kDoubles{
    Choice{kAny, 8, 64, "kmeans_cuda_narrow"}, // points stay where they are, as float32
    Choice{kAny, 16, 16, "kmeans_cuda_narrow"},    Choice{kAny, 32, 4, "kmeans_cuda_narrow"},
    Choice{kAny, 64, 2000, "kmeans_cuda_packed"},  // labels and sums in one launch
    Choice{kAny, kAny, kAny, "kmeans_cuda_wgmma"}, // a product of matrices, none in memory
    Choice{kAny, kAny, kAny, "kmeans_cublas"},     // devices before 9.0
};

template <typename T>
class KmeansCudaAuto final : public Variant<T> {
public:
  std::vector<std::string> delegates(const Shape& shape) const override {
    if constexpr (std::is_same_v<T, float>) {
      return of(kTable, shape);
    } else {
      return of(kDoubles, shape);
    }
  }
  void prepare(const Shape&, const Points<T>&) override { throw only_chooses(); }
  void run(const Start<T>&, Answer<T>&, Observer<T>&) override { throw only_chooses(); }

private:
  template <std::size_t kLines>
  static std::vector<std::string> of(const std::array<Choice, kLines>& table, const Shape& shape) {
    std::vector<std::string> names;
    for (const Choice& line : table) {
      if (shape.n <= line.n && shape.d <= line.d && shape.k <= line.k &&
          std::ranges::find(names, line.variant) == names.end()) { // it may be in several lines
        names.emplace_back(line.variant);
      }
    }
    return names;
  }
  static std::logic_error only_chooses() {
    return std::logic_error("kmeans_cuda_auto only chooses");
  }
};

const Registration registration({.name = "kmeans_cuda_auto",
                                 .idea = "the fastest CUDA variant for the shape, from one table",
                                 .source = "measured: results/tables/gpu_shapes.json",
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .distance = DistanceForm::expanded,
                                 .deterministic = false,
                                 .takes_weights = true, // as several of the table do
                                 .previous = "kmeans_cuda_fused"},
                                both_precisions<KmeansCudaAuto>());

} // namespace
} // namespace clusterbench

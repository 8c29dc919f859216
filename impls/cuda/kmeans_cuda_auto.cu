// K-means by whichever of the CUDA variants is fastest for the shape: one table, read from the top.
//
// Changed since kmeans_cuda_fused: nothing is computed here. The table says which variant was
//   fastest on a measured grid of shapes (results/tables/gpu_shapes.json) and at its own borders
//   (gpu_borders.json). Of the lines whose bounds hold, the harness takes the first whose variant
//   refuses neither the shape nor the points; where that refuses a start, the next one. Several
//   refuse rows far from the origin (far_rows.hpp), where those further down are faster. A test
//   compares the table with both measurements: never more than 10 % behind the best.
// Source: measured on one NVIDIA H200; beyond k = 256 single runs (docs/ladder/any_shape.md).
// Cost per iteration: that of the variant it picks.
// Limits: float. Meta states the loosest of what the table names; up to k = 16 and 512 features,
//   and up to 64 of both, the picks give the same bits in every run on devices of compute
//   capability 9.0. Picked by the time of 20 iterations on mixtures: where more points change their
//   cluster, or under the rule `loss`, or with prepare(), others may be faster.
#include "impls/contract.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

struct Line {
  std::size_t n, d, k; ///< up to this many
  std::string_view variant;
};
constexpr std::array kTable{
    Line{50000, 4, 8, "kmeans_cuda_persistent"}, // points stay where they are
    Line{50000, 8, 1, "kmeans_cuda_moves"},      // so do sums, and what moves changes them
    Line{kAny, 8, 1, "kmeans_cuda_boxes"},       // few points are between centroids
    Line{200000, 4, 8, "kmeans_cuda_persistent"},
    Line{300000, 3, 8, "kmeans_cuda_persistent"},
    Line{70000, 4, 64, "kmeans_cuda_moves"},
    Line{150000, 4, 24, "kmeans_cuda_moves"},
    Line{kAny, 2, 64, "kmeans_cuda_boxes"},
    Line{300000, 4, 24, "kmeans_cuda_moves"},
    Line{kAny, 4, 64, "kmeans_cuda_boxes"},
    Line{300000, 9, 32, "kmeans_cuda_moves"},
    Line{150000, 16, 32, "kmeans_cuda_moves"},
    Line{300000, 12, 8, "kmeans_cuda_moves"},
    Line{kAny, 16, 1, "kmeans_cuda_moves"},
    Line{kAny, 8, 8, "kmeans_cuda_persistent"},
    Line{20000, 9, 64, "kmeans_cuda_moves_wgmma"}, // few rows move
    Line{200000, 6, 64, "kmeans_cuda_boxes"},
    Line{1000000, 8, 16, "kmeans_cuda_moves"},
    Line{1000000, 9, 12, "kmeans_cuda_moves"},
    Line{kAny, 6, 32, "kmeans_cuda_boxes"},
    Line{kAny, 9, 12, "kmeans_cuda_persistent"},
    Line{70000, 64, 8, "kmeans_cuda_moves_wgmma"},
    Line{100000, 64, 8, "kmeans_cuda_half_rows"}, // half the bytes
    Line{100000, 64, 24, "kmeans_cuda_moves_wgmma"},
    Line{200000, 9, 64, "kmeans_cuda_half_rows"},
    Line{50000, 64, 64, "kmeans_cuda_moves_wgmma"},
    Line{kAny, 64, 64, "kmeans_cuda_half_rows"},
    Line{kAny, 9, 40, "kmeans_cuda_cells"}, // what it refuses: warps share their block's sums
    Line{kAny, 64, 64, "kmeans_cuda_fused_wgmma"},
    Line{kAny, 512, 16, "kmeans_cuda_fused"},    // bound by memory
    Line{kAny, 64, 64, "kmeans_cuda_cells_mma"}, // values too far apart for wgmma
    Line{kAny, 8, 64, "kmeans_cuda_cells"},      // rows far from the origin, like the next
    Line{kAny, 64, 64, "kmeans_cuda_wgmma"},     // which moves rows to their mean
    Line{kAny, 8, 256, "kmeans_cuda_cells"},
    Line{20000, 16, 256, "kmeans_cuda_shared_means"}, // few points: few launches
    Line{20000, kAny, 256, "kmeans_cublas"},
    Line{kAny, 4, 128, "kmeans_cuda_block_sums"},  // short rows, devices before 9.0
    Line{kAny, kAny, 512, "kmeans_cuda_wgmma"},    // a product of matrices, none in memory
    Line{kAny, 32, kAny, "kmeans_cuda_certified"}, // comparing outweighs multiplying
    Line{kAny, kAny, kAny, "kmeans_cuda_wgmma"},
    Line{kAny, kAny, kAny, "kmeans_cublas"}, // devices before 9.0
};

class KmeansCudaAuto final : public Variant<float> {
public:
  std::vector<std::string> delegates(const Shape& shape) const override {
    std::vector<std::string> names;
    for (const Line& line : kTable) {
      if (shape.n <= line.n && shape.d <= line.d && shape.k <= line.k &&
          std::ranges::find(names, line.variant) == names.end()) { // it may be in several lines
        names.emplace_back(line.variant);
      }
    }
    return names;
  }
  void prepare(const Shape&, const Points<float>&) override { throw only_chooses(); }
  void run(const Start<float>&, Answer<float>&, Observer<float>&) override { throw only_chooses(); }

private:
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
                                 .previous = "kmeans_cuda_fused"},
                                f32_only<KmeansCudaAuto>());

} // namespace
} // namespace clusterbench

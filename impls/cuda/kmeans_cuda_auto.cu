// K-means by whichever of the CUDA variants is fastest for the shape: one table, read from the top.
//
// Changed since kmeans_cuda_fused: nothing is computed here. The table says which variant was
//   fastest on a measured grid of shapes (results/tables/gpu_shapes.json) and at its own borders
//   (gpu_borders.json); the first line whose bounds hold and whose variant does not refuse is taken,
//   found by name among the registered ones, and does all the work. chosen_path() says which. Some lines
//   hold only near the origin, or only far from it (far_rows.hpp). A test compares the table with both
//   measurements: never more than 10 % behind the best.
// Source: measured on one NVIDIA H200: up to k = 256, beyond it single runs (docs/ladder/any_shape.md).
// Cost per iteration: that of the variant it picks.
// Limits: float. Meta states the loosest of what the table names: expanded distances, and sums whose
//   order may differ from run to run; up to k = 16 and 512 features, and up to 64 of both, the picks give
//   the same bits in every run on devices of compute capability 9.0. Picked by the time of 20 iterations
//   on mixtures, without prepare(); where more points change their cluster, or under the rule `loss`, or
//   with prepare(), which may outweigh hundreds of iterations (any_shape.md), others may be faster.
#include "impls/contract.hpp"
#include "impls/cuda/support/far_rows.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {
namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

enum Rows { kAnywhere, kNear, kFar }; ///< the origin; see are_far_from_origin()

struct Line {
  std::size_t n, d, k; ///< up to this many
  std::string_view variant;
  Rows rows = kAnywhere;
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
    Line{20000, 9, 64, "kmeans_cuda_moves_wgmma", kNear}, // few rows move
    Line{200000, 6, 64, "kmeans_cuda_boxes"},
    Line{1000000, 8, 16, "kmeans_cuda_moves"},
    Line{1000000, 9, 12, "kmeans_cuda_moves"},
    Line{kAny, 6, 32, "kmeans_cuda_boxes"},
    Line{kAny, 9, 12, "kmeans_cuda_persistent"},
    Line{70000, 64, 8, "kmeans_cuda_moves_wgmma", kNear},
    Line{100000, 64, 8, "kmeans_cuda_half_rows", kNear}, // half the bytes
    Line{100000, 64, 24, "kmeans_cuda_moves_wgmma", kNear},
    Line{200000, 9, 64, "kmeans_cuda_half_rows", kNear},
    Line{50000, 64, 64, "kmeans_cuda_moves_wgmma", kNear},
    Line{kAny, 64, 64, "kmeans_cuda_half_rows", kNear},
    Line{kAny, 9, 40, "kmeans_cuda_cells"}, // what it refuses: warps share their block's sums
    Line{kAny, 64, 64, "kmeans_cuda_fused_wgmma", kNear},
    Line{kAny, 8, 64, "kmeans_cuda_cells", kFar},
    Line{kAny, 64, 64, "kmeans_cuda_wgmma", kFar},      // which moves rows to their mean
    Line{kAny, 512, 16, "kmeans_cuda_fused"},           // bound by memory
    Line{kAny, 64, 64, "kmeans_cuda_cells_mma", kNear}, // values too far apart for wgmma
    Line{kAny, 8, 256, "kmeans_cuda_cells"},
    Line{20000, 16, 256, "kmeans_cuda_shared_means"}, // few points: few launches
    Line{20000, kAny, 256, "kmeans_cublas"},
    Line{kAny, 4, 128, "kmeans_cuda_block_sums"},  // short rows, devices before 9.0
    Line{kAny, kAny, 512, "kmeans_cuda_wgmma"},    // a product of matrices, none in memory
    Line{kAny, 32, kAny, "kmeans_cuda_certified"}, // comparing outweighs multiplying
    Line{kAny, kAny, kAny, "kmeans_cuda_wgmma"},
    Line{kAny, kAny, kAny, "kmeans_cublas"}, // devices before 9.0
};

using Made = std::unique_ptr<Variant<float>>;

struct Pick {
  std::string name;
  Made variant; ///< null if every line refuses
  std::string refusals;
};

/// The first variant of the table that takes the problem.
Pick pick_for(const Problem<float>& problem) {
  Pick pick;
  std::vector<std::string_view> asked; // a variant may be in several lines
  std::optional<bool> far;             // found when a line asks
  for (const Line& line : kTable) {
    if (problem.n > line.n || problem.d > line.d || problem.k > line.k ||
        std::ranges::find(asked, line.variant) != asked.end()) {
      continue;
    }
    if (line.rows != kAnywhere && !far) {
      far = cuda::are_far_from_origin(problem.points, problem.d, problem.k);
    }
    if (line.rows != kAnywhere && *far != (line.rows == kFar)) {
      continue;
    }
    asked.push_back(line.variant);
    const auto& all = registered_variants();
    const auto found = std::ranges::find_if(
        all, [&](const RegisteredVariant& one) { return one.meta.name == line.variant; });
    if (found == all.end() || problem.d < found->meta.min_d || problem.d > found->meta.max_d ||
        problem.k > found->meta.max_k) {
      continue;
    }
    Made variant = found->factories.f32();
    const std::string refusal = variant->refuse(problem);
    if (refusal.empty()) {
      pick.name = line.variant;
      pick.variant = std::move(variant);
      return pick;
    }
    pick.refusals += (pick.refusals.empty() ? "" : "; ") + found->meta.name + ": " + refusal;
  }
  return pick;
}

class KmeansCudaAuto final : public Variant<float> {
public:
  std::string refuse(const Problem<float>& problem) const override {
    const Pick pick = pick_for(problem);
    return pick.variant != nullptr ? "" : "no variant of the table takes it: " + pick.refusals;
  }

  void prepare(const Problem<float>& problem) override {
    pick_ = pick_for(problem);
    if (pick_.variant == nullptr) {
      throw std::runtime_error("no variant of the table takes the problem: " + pick_.refusals);
    }
    pick_.variant->prepare(problem);
  }

  void run(Observer<float>& observer) override { pick_.variant->run(observer); }

  void fetch(Result<float>& result) override { pick_.variant->fetch(result); }

  std::string chosen_path() const override {
    const std::string path = pick_.variant != nullptr ? pick_.variant->chosen_path() : "";
    return path.empty() ? pick_.name : pick_.name + ": " + path;
  }

private:
  Pick pick_;
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

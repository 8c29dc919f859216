// K-means by whichever of the CUDA variants is fastest for the shape: one table, read from the top.
//
// Changed since kmeans_cuda_fused: nothing is computed here. The table says which variant was
//   fastest on a measured grid of shapes (results/tables/gpu_shapes.json) and at its own borders
//   (gpu_borders.json); the first line whose bounds hold and whose variant refuses neither the shape nor
//   the points is taken, found by name among the registered ones, and does all the work, unless it refuses
//   a start: then the next one is. chosen_path() says which. Some lines hold only near the origin, or
//   only far from it (far_rows.hpp). A test compares the table with both measurements: never more than
//   10 % behind the best.
// Source: measured on one NVIDIA H200: up to k = 256, beyond it single runs (docs/ladder/any_shape.md).
// Cost per iteration: that of the variant it picks.
// Limits: float. Meta states the loosest of what the table names: expanded distances, and sums whose
//   order may differ from run to run; up to k = 16 and 512 features, and up to 64 of both, the picks give
//   the same bits in every run on devices of compute capability 9.0. Picked by the time of 20 iterations
//   on mixtures, without prepare(); where more points change their cluster, or under the rule `loss`, or
//   with prepare(), which may outweigh hundreds of iterations (any_shape.md), others may be faster.
#include "impls/contract.hpp"
#include "impls/cuda/support/far_rows.hpp"
#include "impls/cuda/support/host_points.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

/// Goes down the table: the variants that do not refuse a shape, each once.
class TableSearch {
public:
  TableSearch() = default;
  /// Without points, lines of both sides of the border hold. The points must outlive this.
  explicit TableSearch(const Shape& shape, std::span<const float> d_points = {})
      : shape_(shape), d_points_(d_points) {}

  /// Null behind the last line.
  Made next() {
    while (line_ < kTable.size()) {
      const Line& line = kTable[line_++];
      if (shape_.n > line.n || shape_.d > line.d || shape_.k > line.k ||
          std::ranges::find(asked_, line.variant) != asked_.end() || !holds(line.rows)) {
        continue;
      }
      asked_.push_back(line.variant);
      const auto& all = registered_variants();
      const auto found = std::ranges::find_if(
          all, [&](const RegisteredVariant& one) { return one.meta.name == line.variant; });
      if (found == all.end() || shape_.d < found->meta.min_d || shape_.d > found->meta.max_d ||
          shape_.k > found->meta.max_k) {
        continue;
      }
      Made variant = found->factories.f32();
      const std::string refusal = variant->refuse(shape_);
      if (refusal.empty()) {
        return variant;
      }
      note_refusal(refusal);
    }
    return nullptr;
  }

  /// Of the last variant asked: why it does not take the points or a start.
  void note_refusal(std::string_view reason) {
    refusals_ += (refusals_.empty() ? "" : "; ") + name() + ": " + std::string(reason);
  }

  std::string name() const { return asked_.empty() ? "" : std::string(asked_.back()); }
  std::string refusals() const { return "no variant of the table takes it: " + refusals_; }

private:
  bool holds(Rows rows) {
    if (rows == kAnywhere || d_points_.empty()) {
      return true;
    }
    if (!far_) { // of lines that ask, d is small
      far_ = cuda::are_far_from_origin(cuda::points_on_host(d_points_), shape_.d, shape_.k);
    }
    return *far_ == (rows == kFar);
  }

  Shape shape_;
  std::span<const float> d_points_;
  std::size_t line_ = 0;
  std::vector<std::string_view> asked_; ///< a variant may be in several lines
  std::optional<bool> far_;             ///< found when a line asks
  std::string refusals_;
};

class KmeansCudaAuto final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    TableSearch search(shape);
    return search.next() != nullptr ? "" : search.refusals();
  }

  void prepare(const Shape& shape, std::span<const float> points) override {
    shape_ = shape;
    points_ = points;
    search_ = TableSearch(shape, points);
    pick_.reset();
    prepare_next();
  }

  /// Where the pick refuses the start, the next one of the table is prepared here, on the clock, and
  /// stays the pick of the runs that follow.
  void run(const Start<float>& start, Result<float>& answer, Observer<float>& observer) override {
    while (true) {
      if (pick_ == nullptr) {
        prepare_next();
      }
      try {
        pick_->run(start, answer, observer);
        return;
      } catch (const Refusal& refusal) {
        search_.note_refusal(refusal.what());
      }
      pick_.reset(); // its memory is free before the next asks for some
    }
  }

  std::string chosen_path() const override {
    const std::string path = pick_ != nullptr ? pick_->chosen_path() : "";
    return path.empty() ? search_.name() : search_.name() + ": " + path;
  }

private:
  /// Prepares the next variant that takes the points. Throws Refusal if there is none.
  void prepare_next() {
    while (true) {
      Made next = search_.next();
      if (next == nullptr) {
        throw Refusal(search_.refusals());
      }
      try {
        next->prepare(shape_, points_);
        pick_ = std::move(next);
        return;
      } catch (const Refusal& refusal) {
        search_.note_refusal(refusal.what());
      }
    }
  }

  Shape shape_;
  std::span<const float> points_;
  TableSearch search_;
  Made pick_; ///< null before prepare(), and where all refuse
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

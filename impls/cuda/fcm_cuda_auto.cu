// Fuzzy c-means by whichever of the CUDA variants is fastest for the shape: one table, read from
// the top.
//
// Changed since fcm_cuda_tiles: nothing is computed here. Of the lines whose bounds hold, the
//   harness takes the first whose variant refuses neither the shape nor the points. The last takes
//   all up to 256 clusters.
// Source: measured on one NVIDIA H200 (docs/ladder/fuzzy.md).
// Cost per iteration: that of the variant it picks.
// Limits: up to 256 clusters. Meta states the loosest of what the table names.
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
  std::size_t d, k; ///< up to this many
  std::string_view variant;
  bool of_doubles = true; ///< float alone otherwise
};
constexpr std::array kTable{
    Choice{kAny, 4, "fcm_cuda_lanes"}, // rows are read once
    Choice{64, 16, "fcm_cuda_lanes"},
    Choice{512, 16, "fcm_cuda_split", false}, // tensor cores; refuses some points
    Choice{512, 16, "fcm_cuda_fused", false},
    Choice{kAny, 8, "fcm_cuda_lanes"},
    Choice{16, kAny, "fcm_cuda_lanes"},   // weights stay out of memory
    Choice{kAny, kAny, "fcm_cuda_tiles"}, // products outweigh reading rows twice
};

template <typename T>
class FcmCudaAuto final : public Variant<T> {
public:
  std::vector<std::string> delegates(const Shape& shape) const override {
    std::vector<std::string> names;
    for (const Choice& line : kTable) {
      if (shape.d <= line.d && shape.k <= line.k &&
          (line.of_doubles || std::is_same_v<T, float>)&&std::ranges::find(names, line.variant) ==
              names.end()) { // it may be in several lines
        names.emplace_back(line.variant);
      }
    }
    return names;
  }
  void prepare(const Shape&, const Points<T>&) override { throw only_chooses(); }
  void run(const Start<T>&, Answer<T>&, Observer<T>&) override { throw only_chooses(); }

private:
  static std::logic_error only_chooses() { return std::logic_error("fcm_cuda_auto only chooses"); }
};

const Registration registration({.name = "fcm_cuda_auto",
                                 .idea = "the fastest CUDA variant for the shape, from one table",
                                 .source = "measured: docs/ladder/fuzzy.md",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .distance = DistanceForm::expanded, // as two of the table have
                                 .max_k = 256,
                                 .previous = "fcm_cuda_tiles"},
                                both_precisions<FcmCudaAuto>());

} // namespace
} // namespace clusterbench

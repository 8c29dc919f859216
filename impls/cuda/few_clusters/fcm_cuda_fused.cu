// Fuzzy c-means in one pass over the data: distances, memberships and weighted sums together.
//
// Changed since fcm_cuda_warp: a sample comes from memory once an iteration instead of twice, and
//   memberships go there only when somebody will read them. Both halves of a pass are products on
//   the tensor cores in split tf32, which keeps 22 bits (tile_run.cuh): the warps of a
//   block share the features of a tile, multiply its rows with all centres, add up these products,
//   turn one distance each into one membership, and multiply the memberships with the rows again.
//   The copy engine keeps the next tiles coming.
// Distances are |x|^2 - 2 x.c + |c|^2, never below 0: three products a feature instead of the two
//   instructions a lane of a sum of squares, which were the bound; they cancel far from the origin.
// Source: article 001, sections 4.2 to 4.4, its kernels as one; one persistent launch.
// Cost per iteration: n d values and 8 n bytes; some 270 instructions of a warp a row of 500 at c =
//   8. Started from memberships, one sweep more for the first centres.
// Limits: float; d <= 512, k <= 16, else refused; n < 2^31. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/few_clusters/fcm_rows.cuh"

#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

class FcmCudaFused final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override { return Run::refuse(shape); }

  void prepare(const Shape& shape, const Points<float>& points) override {
    run_.prepare(shape, points.rows, task_);
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    task_.exchange(start, answer);
    run_.run(start, answer, observer, task_);
  }

private:
  using Run = FcmRun<FcmWholeRun>;

  FcmWholeRun task_{};
  Run run_;
};

const Registration registration({.name = "fcm_cuda_fused",
                                 .idea = "distances, memberships and sums in one pass",
                                 .source = "article 001, sections 4.2 to 4.4, as one kernel",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .multiplier = Multiplier::tensor_tf32,
                                 .distance = DistanceForm::expanded,
                                 .max_d = 512,
                                 .max_k = 16,
                                 .previous = "fcm_cuda_warp"},
                                f32_only<FcmCudaFused>());

} // namespace
} // namespace clusterbench

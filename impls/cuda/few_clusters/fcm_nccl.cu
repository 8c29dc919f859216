// Fuzzy c-means on several GPUs of one host, with sums gathered by NCCL.
//
// Changed since fcm_cuda_fused: every device has a share of the rows and sweeps over them as that
//   variant does, but in a launch for each sweep, which leaves the device's sums. NCCL gathers
//   those of all devices on each of them, and a small kernel adds them up by rank and moves the
//   centres. Memberships stay on their device.
// Sums are gathered, not reduced: they are few, and an all-reduce may add in any order. So all
//   devices have the same centres to the bit, and so has every run on so many devices.
// Source: article 001, sections 4.2 to 4.4; NCCL's manual, "In-place Operations".
// Cost per iteration: a sweep of fcm_cuda_fused over n / GPUs rows, two more launches, and an
//   all-gather of 8 (k (d + 1) + 1) bytes a device. Started from memberships, one sweep more.
// Limits: those of fcm_cuda_fused for a device's rows; at most 16 devices, one rank each. Loads
//   libnccl.so.2 when it is prepared, and refuses where there is none; without its multicast.
// Needs: a stream per thread
#include "impls/cuda/common/nccl.hpp"
#include "impls/cuda/few_clusters/fcm_rows.cuh"
#include "impls/cuda/few_clusters/ranked_fcm.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

class AllGather {
public:
  static constexpr std::size_t kMostRows = std::numeric_limits<std::size_t>::max();

  template <typename Run>
  void prepare(const Shape& shape, const std::vector<int>& devices, const std::vector<Run*>&) {
    comms_ = communicators(devices);
    size_ = FcmSweep::size(shape.d, shape.k);
    for (const int device : devices) {
      const OnDevice on(device);
      parts_.emplace_back(devices.size() * size_); // open, as NCCL may write there from a peer
    }
  }

  double* own(std::size_t rank) { return parts_[rank].data() + rank * size_; }

  SumsOfRanks gather(std::size_t rank) {
    const Nccl& nccl = Nccl::get();
    nccl.check_call(nccl.all_gather(own(rank), parts_[rank].data(), size_, ncclFloat64,
                                    comms_[rank], kDefaultStream),
                    "ncclAllGather");
    return {parts_[rank].data(), parts_.size(), size_};
  }

  std::string path() const { return std::to_string(parts_.size()) + " ranks"; }

private:
  std::vector<ncclComm_t> comms_;
  std::size_t size_ = 0;
  std::vector<OpenBuffer<double>> parts_; // [ranks, size_] of each rank
};

const Registration registration(
    ranked_fcm({.name = "fcm_nccl",
                .idea = "a share of the rows a GPU, sums gathered by NCCL and added up by rank",
                .source = "article 001, sections 4.2 to 4.4; NCCL's manual",
                .multiplier = Multiplier::tensor_tf32,
                .previous = "fcm_cuda_fused"}),
    ranked_fcm_with<AllGather, FcmRun<FcmSweep>>());

} // namespace
} // namespace clusterbench

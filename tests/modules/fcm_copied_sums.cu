// fcm_nccl with sums that the host copies in the place of NCCL, so that ranks may share a device.
#include "impls/cuda/few_clusters/fcm_rows.cuh"
#include "impls/cuda/few_clusters/ranked_fcm.cuh"

#include <barrier>
#include <limits>
#include <memory>

namespace clusterbench {
namespace {

using namespace cuda;

class CopiedSums {
public:
  static constexpr std::size_t kMostRows = std::numeric_limits<std::size_t>::max();

  template <typename Run>
  void prepare(const Shape& shape, const std::vector<int>& devices, const std::vector<Run*>&) {
    devices_ = devices;
    size_ = FcmSweep::size(shape.d, shape.k);
    all_ = std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(devices.size()));
    for (const int device : devices) {
      const OnDevice on(device);
      parts_.emplace_back(devices.size() * size_);
      fill_bytes(parts_.back().span(), 0xFF); // NaN: sums that nobody brings are seen
    }
  }

  double* own(std::size_t rank) { return parts_[rank].data() + rank * size_; }

  SumsOfRanks gather(std::size_t rank) {
    wait(); // the sums of all ranks are there
    for (std::size_t r = 0; r < parts_.size(); ++r) {
      if (r != rank) {
        check(cudaMemcpyPeerAsync(parts_[rank].data() + r * size_, devices_[rank], own(r),
                                  devices_[r], size_ * sizeof(double), kDefaultStream),
              "cudaMemcpyPeerAsync");
      }
    }
    wait(); // all have read them
    return {parts_[rank].data(), parts_.size(), size_};
  }

  std::string path() const { return std::to_string(parts_.size()) + " ranks, copied"; }

private:
  void wait() {
    check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize before an exchange");
    all_->arrive_and_wait();
  }

  std::vector<int> devices_;
  std::size_t size_ = 0;
  std::unique_ptr<std::barrier<>> all_;
  std::vector<OpenBuffer<double>> parts_; // [ranks, size_] of each rank
};

const Registration registration(ranked_fcm({.name = "fcm_copied_sums",
                                            .idea = "fcm_nccl, sums copied by the host",
                                            .source = "tests",
                                            .multiplier = Multiplier::tensor_tf32,
                                            .previous = "fcm_nccl"}),
                                ranked_fcm_with<CopiedSums, FcmRun<FcmSweep>>());

} // namespace
} // namespace clusterbench

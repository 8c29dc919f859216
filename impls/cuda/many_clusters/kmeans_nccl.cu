// K-means on several GPUs of one host, with sums added up by NCCL.
//
// Changed since kmeans_nvlink: the exchange is one grouped all-reduce of NVIDIA's library, which
//   finds its own way between the devices: over NVLink, PCIe or the host. Slower where a pass is
//   short, as every call costs some 17 microseconds; it shares out the adding up, where sums are
//   large.
// Source: NCCL's manual, "Group calls" and "One device per thread".
// Cost per iteration: that of kmeans_cuda_wgmma for n / GPUs rows, and an all-reduce of 16 k d + 4
//   k bytes.
// Limits: those of kmeans_nvlink; one rank a device. Loads libnccl.so.2 when it is prepared, and
//   refuses where there is none; without its multicast. The communicator stays for the process,
//   like a device's context.
// Needs: sm_90a, a stream per thread
#include "impls/cuda/common/nccl.hpp"
#include "impls/cuda/common/ranks.cuh"
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"

namespace clusterbench {
namespace {

using namespace cuda;

class AllReduce {
public:
  static constexpr std::size_t kMostRows = kCountedRows;

  template <typename Run>
  void prepare(const Shape& shape, const std::vector<int>& devices, const std::vector<Run*>& runs) {
    comms_ = communicators(devices);
    words_ = agree_on_sums(shape, runs);
    totals_ = std::vector<Total>(devices.size());
    for (std::size_t r = 0; r < devices.size(); ++r) {
      const OnDevice on(devices[r]);
      totals_[r] = {devices[r], DeviceBuffer<long long>(words_), DeviceBuffer<double>(1),
                    DeviceBuffer<unsigned>(1)};
    }
  }
  ~AllReduce() {
    for (Total& total : totals_) {
      const OnDevice on(total.device); // memory goes back to where it came from
      total = {};
    }
  }

  PassTotals of_all(std::size_t rank, const PassTotals& own) {
    const Nccl& nccl = Nccl::get();
    Total& total = totals_[rank];
    const auto add = [&](const void* from, void* to, std::size_t count, ncclDataType_t type) {
      nccl.check_call(nccl.all_reduce(from, to, count, type, ncclSum, comms_[rank], kDefaultStream),
                      "ncclAllReduce");
    };
    nccl.check_call(nccl.group_start(), "ncclGroupStart");
    // Two counts lie in one word: no sum of the lower one reaches the upper, as n is below 2^31.
    add(own.sums.high, total.words.data(), words_, ncclInt64);
    add(own.loss, total.loss.data(), 1, ncclFloat64);
    add(own.moved, total.moved.data(), 1, ncclUint32);
    nccl.check_call(nccl.group_end(), "ncclGroupEnd");
    return totals_at(total.words.data(), own, total.loss.data(), total.moved.data());
  }

  std::string path() const { return std::to_string(totals_.size()) + " ranks"; }

private:
  /// Of all ranks, on one device.
  struct Total {
    int device = 0;
    DeviceBuffer<long long> words;
    DeviceBuffer<double> loss;
    DeviceBuffer<unsigned> moved;
  };

  std::vector<ncclComm_t> comms_;
  std::size_t words_ = 0;
  std::vector<Total> totals_;
};

using Member = RankMember<AllReduce>;

const Registration
    registration({.name = "kmeans_nccl",
                  .idea = "a share of the rows a GPU, sums all-reduced by NCCL",
                  .source = "NCCL's manual, group calls",
                  .device = Device::multi_gpu,
                  .multiplier = Multiplier::tensor_f16,
                  .max_d = kMostFeatures,
                  .previous = "kmeans_nvlink"},
                 f32_only<RankedRun<LargeK<WgmmaSweep<>, Member>, Member, AllReduce>>());

} // namespace
} // namespace clusterbench

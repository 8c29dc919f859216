// Variants for several GPUs of which the second rank fails between sum and exchange of a pass, in
// cells of more than 1500 points. Until then they are kmeans_nvlink.
#include "impls/cuda/many_clusters/large_k.cuh"
#include "impls/cuda/many_clusters/peer_writes.cuh"
#include "impls/cuda/many_clusters/wgmma_sweep.cuh"
#include "tests/faulty/own_name.hpp"

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr std::size_t kBeyondQualification = 1500;
constexpr unsigned kRank = 1, kPass = 2;
constexpr std::string_view kPrefix = "kmeans_nvlink_faulty_";

__global__ void trap() {
  __trap();
}
__global__ void never_end(volatile unsigned* word) {
  while (*word == 0) {
  }
}

class FaultyWrites {
public:
  static constexpr std::size_t kMostRows = PeerWrites::kMostRows;

  template <typename Run>
  void prepare(const Shape& shape, const std::vector<int>& devices, const std::vector<Run*>& runs) {
    writes_.prepare(shape, devices, runs);
    if (shape.n > kBeyondQualification && devices.size() > kRank) {
      fault_ = own_name().substr(kPrefix.size());
      const OnDevice on(devices[kRank]);
      word_ = zero_words<unsigned>(1);
    }
  }
  PassTotals of_all(std::size_t rank, const PassTotals& own) {
    if (rank == kRank && !fault_.empty() && ++passes_ == kPass) {
      strike();
    }
    return writes_.of_all(rank, own);
  }
  unsigned late() const { return writes_.late(); }
  std::string path() const { return writes_.path(); }

private:
  void strike() {
    if (fault_ == "throws") {
      throw std::runtime_error("a planted fault");
    }
    if (fault_ == "traps") {
      trap<<<1, 1>>>();
    } else if (fault_ == "never_ends") {
      never_end<<<1, 1>>>(word_.data());
    }
  }

  PeerWrites writes_;
  std::string fault_; ///< empty: none in this cell
  OpenBuffer<unsigned> word_;
  unsigned passes_ = 0;
};

using Member = RankMember<FaultyWrites>;

const bool kRegistered = [] {
  Meta meta;
  meta.name = own_name();
  meta.idea = "a fault of one rank";
  meta.source = "tests";
  meta.device = Device::multi_gpu;
  meta.multiplier = Multiplier::tensor_f16;
  meta.max_d = kMostFeatures;
  using Faulty = RankedRun<LargeK<WgmmaSweep<>, Member>, Member, FaultyWrites>;
  registered_variants().push_back({meta, f32_only<Faulty>(), __FILE__});
  return true;
}();

} // namespace
} // namespace clusterbench

// K-means on several GPUs of one host, with sums added up by NCCL.
//
// Changed since kmeans_nvlink: the exchange is one grouped all-reduce of NVIDIA's library, which finds
//   its own way between the devices: over NVLink, PCIe or the host. Slower where a pass is short, as
//   every call costs some 17 microseconds; it shares out the adding up, where sums are large.
// Source: NCCL's manual, "Group calls" and "One device per thread".
// Cost per iteration: that of kmeans_cuda_wgmma for n / GPUs rows, and an all-reduce of 16 k d + 4 k
//   bytes.
// Limits: those of kmeans_nvlink; one rank a device. Loads libnccl.so.2 when it is prepared, and
//   refuses where there is none; without its multicast. The communicator stays for the process, like
//   a device's context.
// Needs: sm_90a, a stream per thread
#include "impls/cuda/many_clusters/ranked_large_k.cuh"

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <nccl.h>
#include <set>

namespace clusterbench {
namespace {

using namespace cuda;

/// The library's calls.
class Nccl {
public:
  decltype(&ncclCommInitAll) comm_init_all = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;

  /// Loads it at the first call. Throws Refusal where it is not found.
  static const Nccl& get() {
    static const Nccl library;
    return library;
  }

  /// Throws std::runtime_error.
  void check_call(ncclResult_t result, const char* call) const {
    if (result != ncclSuccess) {
      throw std::runtime_error(std::string(call) + " failed: " + error_string_(result));
    }
  }

private:
  Nccl() {
    // Its multicast can put a host's devices out of service where several machines share them; and
    // ranks of one process need no other interface than this one.
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      throw Refusal(std::string("NCCL is needed: ") + dlerror());
    }
    const auto load = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) {
        throw Refusal(std::string("libnccl.so.2 has no ") + name);
      }
    };
    load(comm_init_all, "ncclCommInitAll");
    load(all_reduce, "ncclAllReduce");
    load(group_start, "ncclGroupStart");
    load(group_end, "ncclGroupEnd");
    load(error_string_, "ncclGetErrorString");
  }

  decltype(&ncclGetErrorString) error_string_ = nullptr;
};

/// The communicators of these devices, one each. Never destroyed: at the process's end CUDA may be
/// gone before them. Throws what Nccl throws.
const std::vector<ncclComm_t>& communicators(const std::vector<int>& devices) {
  static auto& known = *new std::map<std::vector<int>, std::vector<ncclComm_t>>;
  std::vector<ncclComm_t>& comms = known[devices];
  if (comms.empty()) {
    const Nccl& nccl = Nccl::get();
    std::vector<ncclComm_t> made(devices.size());
    nccl.check_call(
        nccl.comm_init_all(made.data(), static_cast<int>(devices.size()), devices.data()),
        "ncclCommInitAll");
    comms = made;
  }
  return comms;
}

class AllReduce {
public:
  template <typename Run>
  void prepare(const Shape& shape, const std::vector<int>& devices, const std::vector<Run*>& runs) {
    if (std::set(devices.begin(), devices.end()).size() < devices.size()) {
      throw Refusal("NCCL takes one rank a device, but of " + std::to_string(devices.size()) +
                    " ranks two share one");
    }
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

const Registration registration({.name = "kmeans_nccl",
                                 .idea = "a share of the rows a GPU, sums all-reduced by NCCL",
                                 .source = "NCCL's manual, group calls",
                                 .device = Device::multi_gpu,
                                 .multiplier = Multiplier::tensor_f16,
                                 .max_d = kMostFeatures,
                                 .previous = "kmeans_nvlink"},
                                f32_only<RankedLargeK<AllReduce>>());

} // namespace
} // namespace clusterbench

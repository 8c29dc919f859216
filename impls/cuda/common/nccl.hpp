// NVIDIA's library of collectives, loaded when it is asked for: the calls, and communicators.
#pragma once

#include "impls/contract.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <nccl.h>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace clusterbench::cuda {

/// The library's calls.
class Nccl {
public:
  decltype(&ncclCommInitAll) comm_init_all = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) comm_init_rank = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
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
    // ranks of one host need no other interface than this one.
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      throw Refusal(std::string("NCCL is needed: ") + dlerror());
    }
    const auto load = [&]<typename Call>(Call& call, const char* name) {
      call = reinterpret_cast<Call>(dlsym(library, name));
      if (call == nullptr) {
        throw Refusal(std::string("libnccl.so.2 has no ") + name);
      }
    };
    load(comm_init_all, "ncclCommInitAll");
    load(get_unique_id, "ncclGetUniqueId");
    load(comm_init_rank, "ncclCommInitRank");
    load(all_reduce, "ncclAllReduce");
    load(all_gather, "ncclAllGather");
    load(group_start, "ncclGroupStart");
    load(group_end, "ncclGroupEnd");
    load(error_string_, "ncclGetErrorString");
  }

  decltype(&ncclGetErrorString) error_string_ = nullptr;
};

/// The communicators of these devices, one each. Never destroyed: at the process's end CUDA may be
/// gone before them. Throws Refusal where ranks share a device, and what Nccl throws.
inline const std::vector<ncclComm_t>& communicators(const std::vector<int>& devices) {
  if (std::set(devices.begin(), devices.end()).size() < devices.size()) {
    throw Refusal("NCCL takes one rank a device, but of " + std::to_string(devices.size()) +
                  " ranks two share one");
  }
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

} // namespace clusterbench::cuda

// Three devices that are host memory, behind the calls of a plug-in: what the harness puts where
// can be tested where there is no GPU. Memory of a device may be touched for that device alone, and
// nothing is downloaded to pages that are not there yet: their faults would take longer than the
// copy.
#include "harness/worker/device_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace clusterbench {
namespace {

std::mutex g_lock;
std::set<int> g_open;
std::map<const char*, std::pair<int, std::size_t>> g_arrays; ///< by address: device, bytes

void require(bool holds, const char* what) {
  if (!holds) {
    throw std::runtime_error(what);
  }
}

void require_memory(int device, const void* memory, std::size_t bytes) {
  const std::scoped_lock lock(g_lock);
  const auto* at = static_cast<const char*>(memory);
  auto array = g_arrays.upper_bound(at);
  require(array != g_arrays.begin(), "no memory of a device");
  --array;
  require(at + bytes <= array->first + array->second.second, "beyond an array's end");
  require(array->second.first == device, "memory of another device");
}

void require_touched(const void* memory, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory) / page * page;
  const std::size_t size = reinterpret_cast<std::uintptr_t>(memory) + bytes - begin;
  std::vector<unsigned char> is_there((size + page - 1) / page);
  require(mincore(reinterpret_cast<void*>(begin), size, is_there.data()) == 0, "mincore");
  require(std::ranges::all_of(is_there, [](unsigned char state) { return state % 2 == 1; }),
          "a download to memory that nobody has touched");
}

void open(int device) {
  require(device < 3, "there are three devices");
  g_open.insert(device);
}

void* allocate(int device, std::size_t bytes) {
  const std::scoped_lock lock(g_lock);
  require(g_open.contains(device), "the device is not open");
  auto* memory = static_cast<char*>(std::malloc(bytes));
  g_arrays[memory] = {device, bytes};
  return memory;
}

void release(int device, void* memory) noexcept {
  const std::scoped_lock lock(g_lock);
  const auto array = g_arrays.find(static_cast<char*>(memory));
  if (array == g_arrays.end() || array->second.first != device) {
    std::abort();
  }
  g_arrays.erase(array);
  std::free(memory);
}

void upload(int device, void* to, const void* host, std::size_t bytes) {
  require_memory(device, to, bytes);
  std::memcpy(to, host, bytes);
}

void download(int device, void* host, const void* from, std::size_t bytes) {
  require_memory(device, from, bytes);
  require_touched(host, bytes);
  std::memcpy(host, from, bytes);
}

void fill(int device, void* memory, unsigned char byte, std::size_t bytes) {
  require_memory(device, memory, bytes);
  std::memset(memory, byte, bytes);
}

void synchronize() {}
void* mark(void*) {
  return nullptr;
}
double seconds_between(void*, void*) {
  return 0.0;
}

} // namespace
} // namespace clusterbench

extern "C" __attribute__((visibility("default"))) const void* clusterbench_device_calls() {
  using namespace clusterbench;
  static const DeviceCalls calls{open, allocate,    release, upload,         download,
                                 fill, synchronize, mark,    seconds_between};
  return &calls;
}

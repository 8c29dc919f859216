// An NVIDIA driver that is not there: what the harness and the CUDA runtime ask libnvidia-ml.so.1
// and libcuda.so.1 before there is a context. One library under both names, put before others by
// LD_LIBRARY_PATH. The environment says which driver it is:
//
//   STAND_IN_GPUS     how many GPUs it lists; one, if it is not set
//   STAND_IN_CUDA     the newest CUDA that it supports, such as 12020 for 12.2
//   STAND_IN_START    the error of cuInit(), such as 803
//   STAND_IN_USE      per cent of the last moments in which the last GPU was computing; 0, if it is
//   not set
#include <cstdlib>
#include <cstring>

namespace {

int g_devices[16];

int number_in(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

int put(char* text, unsigned room, const char* what) {
  std::strncpy(text, what, room);
  return 0;
}

// Whatever else is asked for. 3: CUDA_ERROR_NOT_INITIALIZED.
int not_started() {
  return 3;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int nvmlInit_v2() {
  return 0;
}
EXPORTED int nvmlShutdown() {
  return 0;
}
EXPORTED int nvmlDeviceGetCount_v2(unsigned* count) {
  const int wanted = number_in("STAND_IN_GPUS");
  *count = wanted > 0 ? static_cast<unsigned>(wanted) : 1;
  return 0;
}
EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &g_devices[index % 16];
  return 0;
}
EXPORTED int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_memory) {
  unsigned count = 0;
  nvmlDeviceGetCount_v2(&count);
  gpu_memory[0] = device == &g_devices[(count - 1) % 16] ? number_in("STAND_IN_USE") : 0;
  gpu_memory[1] = 0;
  return 0;
}
EXPORTED int nvmlDeviceGetName(void*, char* text, unsigned room) {
  return put(text, room, "Stand-in GPU");
}
EXPORTED int nvmlSystemGetDriverVersion(char* text, unsigned room) {
  return put(text, room, "123.45");
}
EXPORTED int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = number_in("STAND_IN_CUDA");
  return 0;
}
EXPORTED int nvmlDeviceGetMemoryInfo(void*, unsigned long long* total_free_used) {
  total_free_used[0] = total_free_used[1] = 8ull << 30;
  total_free_used[2] = 0;
  return 0;
}

EXPORTED int cuInit(unsigned) {
  return number_in("STAND_IN_START");
}
EXPORTED int cuDriverGetVersion(int* version) {
  *version = number_in("STAND_IN_CUDA");
  return 0;
}
EXPORTED int cuDeviceGetCount(int* count) {
  *count = 0;
  return number_in("STAND_IN_START");
}
// Drivers before CUDA 12 have none; the runtime asks this one for everything else.
EXPORTED int cuGetProcAddress_v2(const char* name, void** address, int, unsigned long long,
                                 int* found) {
  struct Known {
    const char* name;
    void* address;
  };
  static const Known kKnown[] = {
      {"cuInit", reinterpret_cast<void*>(cuInit)},
      {"cuDriverGetVersion", reinterpret_cast<void*>(cuDriverGetVersion)},
      {"cuDeviceGetCount", reinterpret_cast<void*>(cuDeviceGetCount)},
      {"cuGetProcAddress", reinterpret_cast<void*>(cuGetProcAddress_v2)}};
  *address = reinterpret_cast<void*>(not_started);
  for (const Known& each : kKnown) {
    if (std::strcmp(each.name, name) == 0) {
      *address = each.address;
    }
  }
  if (found != nullptr) {
    *found = 0; // CU_GET_PROC_ADDRESS_SUCCESS
  }
  return 0;
}

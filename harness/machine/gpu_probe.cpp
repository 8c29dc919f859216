#include "harness/machine/gpu_probe.hpp"

#include "harness/system/program_folder.hpp"

#include <dlfcn.h>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace clusterbench {
namespace {

std::filesystem::path plugin() {
  return program_folder() / "plugins" / "gpu_probe.so";
}

} // namespace

bool has_gpu_probe() {
  return std::filesystem::exists(plugin());
}

nlohmann::json measure_gpu(bool quick) {
  void* library = dlopen(plugin().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(dlerror());
  }
  const auto probe =
      reinterpret_cast<const char* (*)(bool)>(dlsym(library, "clusterbench_probe_gpu"));
  if (probe == nullptr) {
    throw std::runtime_error(plugin().string() + ": holds no probe");
  }
  const auto limits = nlohmann::json::parse(probe(quick));
  if (limits.contains("error")) {
    throw std::runtime_error(limits.at("error").get<std::string>());
  }
  return limits;
}

} // namespace clusterbench

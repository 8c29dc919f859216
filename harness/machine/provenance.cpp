#include "harness/machine/provenance.hpp"

#include "harness/machine/build_info.hpp"
#include "harness/machine/disturbance.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/system/available_memory.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <tuple>

#if __has_include(<Eigen/Core>)
#include <Eigen/Core>
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// ---- small readers of /proc and /sys; an unreadable file is an empty value

const fs::path kCpus = "/sys/devices/system/cpu";

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  line.erase(line.find_last_not_of(" \t\n\0") + 1);
  return line;
}

template <typename Number>
std::optional<Number> number_in(const fs::path& path) {
  std::ifstream file(path);
  Number number{};
  return file >> number ? std::optional(number) : std::nullopt;
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

/// The value of "key : value" or "key=value" in a file of such lines.
std::optional<std::string> value_of(const fs::path& path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos) {
      continue;
    }
    const std::string_view name(line.data(), line.find_last_not_of(" \t", at - (at > 0)) + 1);
    if (name == key) {
      const std::size_t begin = line.find_first_not_of(" \t\"", at + 1);
      const std::size_t end = line.find_last_not_of(" \t\"") + 1;
      return begin < end ? line.substr(begin, end - begin) : std::string();
    }
  }
  return std::nullopt;
}

/// A line of /proc/meminfo [bytes].
std::optional<std::size_t> meminfo(std::string_view key) {
  const std::optional<std::string> text = value_of("/proc/meminfo", key, ':');
  std::size_t kibibytes = 0;
  if (!text || !(std::istringstream(*text) >> kibibytes)) {
    return std::nullopt;
  }
  return kibibytes * 1024;
}

/// "48K", "2M" or plain bytes.
std::size_t parse_size(const std::string& text) {
  std::size_t size = 0;
  std::istringstream stream(text);
  char unit = ' ';
  stream >> size >> unit;
  return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : unit == 'G' ? size << 30 : size;
}

/// Folders named `prefix` and a number, such as cpu0, cpu1, ...
std::vector<fs::path> numbered(const fs::path& parent, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename();
    if (name.size() > prefix.size() && name.starts_with(prefix) &&
        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                    [](char c) { return c >= '0' && c <= '9'; })) {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

// ---- the parts of the provenance

json build_facts() {
  return {{"version", build_info::version()},
          {"compiler", build_info::compiler()},
          {"flags", build_info::flags()},
          {"march", build_info::march()},
          {"build_type", build_info::build_type()},
          {"cuda_compiler", build_info::cuda_compiler()},
          {"cuda_architectures", build_info::cuda_architectures()},
          {"git_commit", build_info::git_commit()},
          {"git_dirty", build_info::git_dirty()}};
}

/// Those CPU features that decide how fast arithmetic can be; all others would only be noise.
json relevant_flags() {
  constexpr std::array kPrefixes = {"sse4_2", "avx", "fma", "f16c", "amx", "asimd", "sve", "bf16"};
  constexpr std::string_view kInfo = "/proc/cpuinfo";
  const std::string all =
      value_of(kInfo, "flags", ':').value_or(value_of(kInfo, "Features", ':').value_or(""));
  std::set<std::string> relevant;
  std::istringstream words(all);
  for (std::string flag; words >> flag;) {
    if (std::ranges::any_of(kPrefixes, [&](const char* p) { return flag.starts_with(p); })) {
      relevant.insert(flag);
    }
  }
  return relevant;
}

json cache_facts() {
  json caches = json::array();
  for (const CpuCache& cache : cpu_caches()) {
    caches.push_back({{"level", cache.level},
                      {"type", cache.type},
                      {"bytes", cache.bytes},
                      {"instances", cache.instances}});
  }
  return caches;
}

json cpu_facts() {
  std::set<std::string> sockets;
  std::set<std::string> cores;
  for (const fs::path& cpu : numbered(kCpus, "cpu")) {
    const auto socket = first_line(cpu / "topology/physical_package_id");
    const auto core = first_line(cpu / "topology/core_id");
    if (socket && core) { // offline CPUs have no topology
      sockets.insert(*socket);
      cores.insert(*socket + ":" + *core);
    }
  }
  const auto megahertz = [](const char* file) {
    const auto kilohertz = number_in<double>(kCpus / "cpu0/cpufreq" / file);
    return kilohertz ? json(*kilohertz / 1000.0) : json(nullptr);
  };
  return {
      {"model", or_null(value_of("/proc/cpuinfo", "model name", ':'))},
      {"family", or_null(value_of("/proc/cpuinfo", "cpu family", ':'))},
      {"model_number", or_null(value_of("/proc/cpuinfo", "model", ':'))},
      {"stepping", or_null(value_of("/proc/cpuinfo", "stepping", ':'))},
      {"microcode", or_null(value_of("/proc/cpuinfo", "microcode", ':'))},
      {"sockets", sockets.empty() ? json(nullptr) : json(sockets.size())},
      {"cores", cores.empty() ? json(nullptr) : json(cores.size())},
      {"online", sysconf(_SC_NPROCESSORS_ONLN)},
      {"allowed", usable_processors().empty() ? json(nullptr) : json(usable_processors().size())},
      {"flags", relevant_flags()},
      {"governor", or_null(first_line(kCpus / "cpu0/cpufreq/scaling_governor"))},
      {"mhz", or_null(cpu_mhz(0))},
      {"mhz_min", megahertz("cpuinfo_min_freq")},
      {"mhz_max", megahertz("cpuinfo_max_freq")},
      {"caches", cache_facts()}};
}

json memory_facts() {
  const auto nodes = numbered("/sys/devices/system/node", "node").size();
  return {{"total_bytes", or_null(meminfo("MemTotal"))},
          {"available_bytes", available_memory_bytes()},
          {"numa_nodes", nodes > 0 ? json(nodes) : json(nullptr)},
          {"huge_pages", or_null(first_line("/sys/kernel/mm/transparent_hugepage/enabled"))}};
}

/// The hypervisor's name for itself, such as KVMKVMKVM.
std::optional<std::string> hypervisor() {
#if defined(__x86_64__)
  constexpr unsigned kHypervisorLeaf = 0x40000000;
  std::array<unsigned, 4> words{};
  __cpuid(1, words[0], words[1], words[2], words[3]);
  if ((words[2] >> 31 & 1U) != 0) {
    __cpuid(kHypervisorLeaf, words[0], words[1], words[2], words[3]);
    std::string name;
    for (std::size_t i = 0; i < 12; ++i) { // in three registers, four letters each
      const auto letter = static_cast<char>(words[1 + i / 4] >> 8 * (i % 4) & 0x7fU);
      name += letter >= ' ' ? std::string(1, letter) : "";
    }
    return name;
  }
#endif
  return std::nullopt;
}

json container_hint() {
  if (const char* declared = std::getenv("container")) {
    return declared;
  }
  if (fs::exists("/.dockerenv")) {
    return "docker";
  }
  if (fs::exists("/run/.containerenv")) {
    return "podman";
  }
  return nullptr;
}

json system_facts() {
  utsname names{};
  uname(&names);
  std::array<double, 3> load{};
  const bool load_known = getloadavg(load.data(), static_cast<int>(load.size())) == 3;
  const std::string flags = value_of("/proc/cpuinfo", "flags", ':').value_or("");
  return {{"os", or_null(value_of("/etc/os-release", "PRETTY_NAME", '='))},
          // The node name, also in `names`, stays out.
          {"kernel", fmt::format("{} {}", names.sysname, names.release)},
          {"architecture", names.machine},
          {"load_average", load_known ? json(load) : json(nullptr)},
          {"virtual_machine", flags.find(" hypervisor") != std::string::npos},
          {"hypervisor", or_null(hypervisor())},
          {"product", or_null(first_line("/sys/class/dmi/id/product_name"))},
          {"container", container_hint()},
          {"cpu_quota", or_null(first_line("/sys/fs/cgroup/cpu.max"))}};
}

/// Variables that change how many threads run, where, which code path a library takes, or how a GPU
/// is launched.
json environment_facts() {
  constexpr std::array kPrefixes = {
      "OMP_",  "GOMP_",   "KMP_",           "OPENBLAS_",           "MKL_", "BLIS_", "CUDA_",
      "NCCL_", "MALLOC_", "GLIBC_TUNABLES", "CLUSTERBENCH_COUNTED"};
  json found = json::object();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos &&
        std::ranges::any_of(kPrefixes, [&](const char* p) { return text.starts_with(p); })) {
      found[std::string(text.substr(0, equals))] = text.substr(equals + 1);
    }
  }
  return found;
}

/// File names of the shared libraries in this process, with the versions that their links lead to.
std::set<std::string> loaded_libraries() {
  std::set<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        std::error_code error;
        const fs::path file = fs::canonical(info->dlpi_name, error);
        if (!error && file.filename().string().find(".so") != std::string::npos) {
          static_cast<std::set<std::string>*>(into)->insert(file.filename());
        }
        return 0;
      },
      &names);
  return names;
}

json library_facts() {
  const std::set<std::string> loaded = loaded_libraries();
  json benchmark_version = nullptr; // its headers do not tell
  constexpr std::string_view kBenchmark = "libbenchmark.so.";
  for (const std::string& name : loaded) {
    if (name.starts_with(kBenchmark)) {
      benchmark_version = name.substr(kBenchmark.size());
    }
  }
#ifdef EIGEN_WORLD_VERSION
  const json eigen =
      fmt::format("{}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
#else
  const json eigen = nullptr;
#endif
#ifdef _OPENMP
  const json openmp = _OPENMP; // the date of the specification, such as 201511
#else
  const json openmp = nullptr;
#endif
#ifdef __GLIBCXX__
  const json standard_library = fmt::format("libstdc++ {} ({})", _GLIBCXX_RELEASE, __GLIBCXX__);
#else
  const json standard_library = nullptr;
#endif
  return {{"eigen", eigen},
          {"google_benchmark", benchmark_version},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)},
          {"nlohmann_json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                                        NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"standard_library", standard_library},
          {"openmp", openmp},
          {"libc", fmt::format("glibc {}", gnu_get_libc_version())},
          {"loaded", loaded}};
}

json gpu_facts() {
  json facts = {{"missing_reason", gpu_missing_reason()}, {"devices", json::array()}};
  const unsigned count = gpu_count();
  for (unsigned index = 0; index < count; ++index) {
    try {
      facts["devices"].push_back(gpu_state(index));
    } catch (const std::runtime_error& error) { // one broken GPU must not hide the others
      facts["devices"].push_back({{"index", index},
                                  {"name", nullptr},
                                  {"driver_version", nullptr},
                                  {"error", error.what()}});
    }
  }
  return facts;
}

} // namespace

std::vector<CpuCache> cpu_caches() {
  // An instance is known by its level, its type and the CPUs that share it.
  std::map<std::tuple<int, std::string, std::string>, std::size_t> instances;
  for (const fs::path& cpu : numbered(kCpus, "cpu")) {
    for (const fs::path& cache : numbered(cpu / "cache", "index")) {
      const auto level = number_in<int>(cache / "level");
      const auto type = first_line(cache / "type");
      const auto size = first_line(cache / "size");
      if (level && type && size) {
        instances[{*level, *type, first_line(cache / "shared_cpu_list").value_or("")}] =
            parse_size(*size);
      }
    }
  }
  std::map<std::tuple<int, std::string, std::size_t>, std::size_t> counts;
  for (const auto& [instance, bytes] : instances) {
    ++counts[{std::get<0>(instance), std::get<1>(instance), bytes}];
  }
  std::vector<CpuCache> caches;
  for (const auto& [kind, count] : counts) {
    caches.push_back({std::get<0>(kind), std::get<1>(kind), std::get<2>(kind), count});
  }
  return caches;
}

json provenance() {
  return {{"build", build_facts()},
          {"cpu", cpu_facts()},
          {"memory", memory_facts()},
          {"system", system_facts()},
          {"environment", environment_facts()},
          {"libraries", library_facts()},
          {"gpu", gpu_facts()}};
}

} // namespace clusterbench

#include "harness/machine/nvml.hpp"
#include "harness/machine/provenance.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

namespace clusterbench {
namespace {

using nlohmann::json;

void expect_keys(const json& object, const std::vector<const char*>& keys) {
  ASSERT_TRUE(object.is_object());
  EXPECT_EQ(object.size(), keys.size()) << object.dump(1);
  for (const char* key : keys) {
    EXPECT_TRUE(object.contains(key)) << key;
  }
}

void expect_no_value_is(const json& node, const std::string& forbidden) {
  for (const auto& [key, value] : node.items()) {
    EXPECT_NE(key, "hostname");
    if (value.is_structured()) {
      expect_no_value_is(value, forbidden);
    } else if (value.is_string()) {
      EXPECT_NE(value.get<std::string>(), forbidden) << key;
    }
  }
}

TEST(Provenance, HasEveryPart) {
  const json facts = provenance();
  expect_keys(facts, {"build", "cpu", "memory", "system", "environment", "libraries", "gpu"});
  expect_keys(facts["build"], {"version", "compiler", "flags", "march", "build_type",
                               "cuda_compiler", "cuda_architectures", "git_commit", "git_dirty"});
  expect_keys(facts["cpu"],
              {"model", "family", "model_number", "stepping", "microcode", "sockets", "cores",
               "online", "allowed", "flags", "governor", "mhz", "mhz_min", "mhz_max", "caches"});
  expect_keys(facts["memory"], {"total_bytes", "available_bytes", "numa_nodes", "huge_pages"});
  expect_keys(facts["system"], {"os", "kernel", "architecture", "load_average", "virtual_machine",
                                "hypervisor", "product", "container", "cpu_quota"});
  expect_keys(facts["libraries"], {"eigen", "google_benchmark", "fmt", "nlohmann_json",
                                   "standard_library", "openmp", "libc", "loaded"});
  expect_keys(facts["gpu"], {"missing_reason", "devices"});
}

TEST(Provenance, TypesAndValuesAreSane) {
  const json facts = provenance();
  EXPECT_TRUE(facts["build"]["compiler"].is_string());
  EXPECT_FALSE(facts["build"]["compiler"].get<std::string>().empty());
  EXPECT_TRUE(facts["build"]["git_dirty"].is_boolean());
  EXPECT_GE(facts["cpu"]["online"].get<int>(), 1);
  EXPECT_LE(facts["cpu"]["allowed"].get<int>(), facts["cpu"]["online"].get<int>());
  EXPECT_TRUE(facts["cpu"]["flags"].is_array());
  EXPECT_TRUE(facts["cpu"]["governor"].is_null() || facts["cpu"]["governor"].is_string());
  EXPECT_GT(facts["memory"]["total_bytes"].get<std::size_t>(), std::size_t{64} << 20);
  EXPECT_LE(facts["memory"]["available_bytes"].get<std::size_t>(),
            facts["memory"]["total_bytes"].get<std::size_t>());
  EXPECT_EQ(facts["system"]["kernel"].get<std::string>().rfind("Linux ", 0), 0U);
  EXPECT_EQ(facts["system"]["load_average"].size(), 3U);
  EXPECT_TRUE(facts["libraries"]["loaded"].is_array());
  EXPECT_TRUE(facts["libraries"]["nlohmann_json"].is_string());
  EXPECT_NO_THROW(json::parse(facts.dump()));
}

TEST(Provenance, CachesGrowWithTheirLevel) {
  int level = 0;
  std::size_t bytes = 0;
  for (const CpuCache& cache : cpu_caches()) {
    EXPECT_GE(cache.level, 1);
    EXPECT_GE(cache.level, level);
    EXPECT_GE(cache.instances, 1U);
    EXPECT_GT(cache.bytes, 0U);
    if (cache.level > level) {
      EXPECT_GT(cache.bytes, bytes);
      bytes = cache.bytes;
    }
    level = cache.level;
  }
}

TEST(Provenance, DoesNotNameTheHost) {
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  const json facts = provenance();
  expect_no_value_is(facts, host.data());
  // A host name as short as "vm" may be part of an innocent word; a longer one must not appear.
  const std::string name = host.data();
  if (name.size() >= 6 && name != "localhost") {
    EXPECT_EQ(facts.dump().find(name), std::string::npos);
  }
}

TEST(Provenance, RecordsTheVariablesThatMatterAndNoOthers) {
  setenv("OMP_PROC_BIND", "spread", 1);
  setenv("CLUSTERBENCH_COUNTED", "1", 1); // launches are not what they are otherwise
  setenv("CLUSTERBENCH_TEST_SECRET", "do not record", 1);
  const json facts = provenance();
  EXPECT_EQ(facts["environment"].value("OMP_PROC_BIND", ""), "spread");
  EXPECT_EQ(facts["environment"].value("CLUSTERBENCH_COUNTED", ""), "1");
  EXPECT_EQ(facts.dump().find("do not record"), std::string::npos);
  unsetenv("OMP_PROC_BIND");
  unsetenv("CLUSTERBENCH_COUNTED");
  unsetenv("CLUSTERBENCH_TEST_SECRET");
}

TEST(Gpus, AreNumberedAsCudaSeesThem) {
  const std::vector<std::string> uuids = {"GPU-aa11", "GPU-ab22", "GPU-cc33"};
  using Numbers = std::vector<unsigned>;
  EXPECT_EQ(visible_gpus(nullptr, uuids), (Numbers{0, 1, 2}));
  EXPECT_EQ(visible_gpus("", uuids), Numbers{});
  EXPECT_EQ(visible_gpus("-1", uuids), Numbers{});
  EXPECT_EQ(visible_gpus("NoDevFiles", uuids), Numbers{});
  EXPECT_EQ(visible_gpus("1", uuids), Numbers{1});
  EXPECT_EQ(visible_gpus("2, 0", uuids), (Numbers{2, 0}));
  EXPECT_EQ(visible_gpus("1,7,0", uuids), Numbers{1}); // what is behind none is not seen
  EXPECT_EQ(visible_gpus("GPU-cc,GPU-aa11", uuids), (Numbers{2, 0}));
  EXPECT_EQ(visible_gpus("2,GPU-a,1", uuids), Numbers{2}); // of two
  EXPECT_EQ(visible_gpus("MIG-aa11/1/0", uuids), (Numbers{0, 1, 2}));
}

TEST(Nvml, SaysWhyThereIsNoGpuOrDescribesIt) {
  if (gpu_count() == 0) {
    EXPECT_FALSE(gpu_missing_reason().empty());
    EXPECT_THROW(gpu_state(0), std::runtime_error);
    EXPECT_TRUE(provenance()["gpu"]["devices"].empty());
    return;
  }
  const json state = gpu_state(0);
  EXPECT_FALSE(state["name"].get<std::string>().empty());
  EXPECT_GT(state["memory_total_bytes"].get<std::size_t>(), std::size_t{256} << 20);
  EXPECT_FALSE(state.contains("uuid"));
  EXPECT_EQ(provenance()["gpu"]["devices"].size(), gpu_count());
}

TEST(Nvml, HiddenGpusAreMissing) {
  const char* before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string saved = before != nullptr ? before : "";
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_FALSE(gpu_missing_reason().empty());
  if (before != nullptr) {
    setenv("CUDA_VISIBLE_DEVICES", saved.c_str(), 1);
  } else {
    unsetenv("CUDA_VISIBLE_DEVICES");
  }
}

TEST(Nvml, ADriverIsTooOldForAToolkitOfALaterMajorVersion) {
  EXPECT_EQ(
      driver_too_old_reason(12020, "13.0.88", "535.54"),
      "the NVIDIA driver 535.54 is too old for this build: it supports CUDA up to 12.2, and the "
      "build was made with CUDA 13.0.88");
  EXPECT_EQ(driver_too_old_reason(13000, "13.2.1", "580.65"), ""); // of the same major version
  EXPECT_EQ(driver_too_old_reason(13000, "12.4.131", "580.65"), "");
  EXPECT_EQ(driver_too_old_reason(12020, "", "535.54"), "");    // no CUDA in the build
  EXPECT_EQ(driver_too_old_reason(0, "13.0.88", "535.54"), ""); // the driver does not say
}

TEST(Nvml, NoSuchGpuThrows) {
  EXPECT_THROW(gpu_state(1U << 20), std::runtime_error);
}

} // namespace
} // namespace clusterbench

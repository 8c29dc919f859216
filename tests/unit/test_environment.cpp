#include "harness/machine/environment.hpp"
#include "harness/machine/provenance.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

json machine() {
  return {{"cpu",
           {{"model", "A"},
            {"cores", 2},
            {"online", 2},
            {"microcode", "0x1"},
            {"flags", {"avx", "avx2", "fma"}},
            {"allowed", 2},
            {"governor", nullptr},
            {"mhz_max", nullptr}}},
          {"memory", {{"total_bytes", std::size_t{24} << 30}}},
          {"environment", json::object()},
          {"system",
           {{"kernel", "Linux 6"},
            {"virtual_machine", true},
            {"product", nullptr},
            {"hypervisor", "KVMKVMKVM"},
            {"cpu_quota", "max 100000"}}},
          {"gpu", {{"devices", {{{"name", "G"}, {"driver_version", "1"}, {"mig", false}}}}}}};
}

Lines differences(const json& a, const json& b) {
  return environment_differences(comparable_environment(a), comparable_environment(b));
}

TEST(Environment, OneFlagThatIsMissingIsOneDifference) {
  json other = machine();
  other["cpu"]["flags"] = {"avx2", "fma"};
  EXPECT_EQ(differences(machine(), other), Lines{"cpu/flags: only the first has avx"});
}

TEST(Environment, LimitsOfTheSameMachineDiffer) {
  struct {
    const char *part, *key, *difference;
    json value;
  } const changes[] = {
      {"cpu", "allowed", "cpu/allowed: 2, 1", 1},
      {"cpu", "governor", "cpu/governor: none, \"powersave\"", "powersave"},
      {"cpu", "mhz_max", "cpu/mhz_max: none, 3000.0", 3000.0},
      {"system", "cpu_quota", "system/cpu_quota: none, 0.5", "50000 100000"},
      {"system", "hypervisor", "system/hypervisor: \"KVMKVMKVM\", \"VMwareVMware\"",
       "VMwareVMware"},
      {"memory", "total_bytes", "memory: 24 GiB, 12 GiB", std::size_t{12} << 30},
  };
  for (const auto& change : changes) {
    json other = machine();
    other[change.part][change.key] = change.value;
    EXPECT_EQ(differences(machine(), other), Lines{change.difference});
    EXPECT_NE(environment_hash(machine()), environment_hash(other)) << change.key;
  }
  json other = machine();
  other["gpu"]["devices"][0]["mig"] = true;
  EXPECT_EQ(differences(machine(), other), Lines{"gpus/0/mig: false, true"});
}

TEST(Environment, WhatAKernelKeepsForItselfIsNoDifference) {
  json other = machine();
  other["memory"]["total_bytes"] = (std::size_t{24} << 30) - (std::size_t{700} << 20);
  other["system"]["cpu_quota"] = nullptr; // no quota, like "max"
  EXPECT_EQ(differences(machine(), other), Lines{});
}

TEST(Environment, DifferencesAreShort) {
  json other = machine();
  other["gpu"]["devices"] = json::array();
  EXPECT_EQ(differences(machine(), other), Lines{"gpus: 1 x \"G\", none"});
  other = machine();
  other["environment"]["OMP_NUM_THREADS"] = "4";
  EXPECT_EQ(differences(machine(), other), Lines{"environment/OMP_NUM_THREADS: none, \"4\""});
  other = machine();
  other["cpu"]["flags"] = {"avx", "avx2", "b", "c", "d", "e", "f", "fma", "g"};
  EXPECT_EQ(differences(machine(), other),
            Lines{"cpu/flags: only the second has b, c, d, e, f and 1 more"});
}

// Ledgers of then hold the hash of what was compared then.
TEST(Environment, OfOlderLedgersIsWhatItWas) {
  json old = machine();
  old["system"].erase("hypervisor");
  json changed = old;
  changed["cpu"]["allowed"] = 1;
  changed["memory"]["total_bytes"] = 1;
  EXPECT_EQ(environment_hash(old), environment_hash(changed));
  EXPECT_EQ(differences(old, machine()), Lines{}); // it does not tell the rest
  EXPECT_EQ(differences(machine(), old), Lines{});
}

TEST(Environment, WhereToolsAreFoundIsNoDifference) {
  json other = machine();
  other["environment"]["CUDA_HOME"] = "/usr/local/cuda";
  EXPECT_EQ(differences(machine(), other), Lines{});
}

// A ledger of the first generation does not tell microcode, flags, caches and the like.
TEST(Environment, WhatTheOldestLedgersDoNotTellIsNoDifference) {
  json old = machine();
  old["cpu"].erase("microcode");
  EXPECT_EQ(differences(old, machine()), Lines{});
  json other = machine();
  other["cpu"]["model"] = "B";
  other["system"]["kernel"] = "Linux 7";
  EXPECT_EQ(differences(old, other),
            (Lines{"cpu/model: \"A\", \"B\"", "system/kernel: \"Linux 6\", \"Linux 7\""}));
}

TEST(Environment, CachesAreOneDifferenceAndOfManyTheFirstFiveAreListed) {
  json one = machine(), other = machine();
  for (auto [environment, bytes] : {std::pair(&one, 32768), std::pair(&other, 49152)}) {
    (*environment)["cpu"]["caches"] =
        json::array({json{{"level", 1}, {"type", "Data"}, {"bytes", bytes}, {"instances", 2}}});
  }
  EXPECT_EQ(differences(one, other), Lines{"cpu/caches: L1 Data 32 KiB x 2; L1 Data 48 KiB x 2"});
  EXPECT_EQ(listed({"a", "b"}), "a; b");
  EXPECT_EQ(listed({"a", "b", "c", "d", "e", "f", "g"}), "a; b; c; d; e; and 2 more");
}

TEST(Environment, OfThisMachineIsTheSameTwice) {
  EXPECT_EQ(environment_hash(provenance()), environment_hash(provenance()));
}

} // namespace
} // namespace clusterbench

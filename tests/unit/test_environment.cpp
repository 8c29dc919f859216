#include "harness/machine/environment.hpp"
#include "harness/machine/provenance.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
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
  EXPECT_EQ(differences(machine(), other), (Lines{"cpu/flags/avx: true, absent"}));
}

TEST(Environment, LimitsOfTheSameMachineDiffer) {
  struct {
    const char *part, *key, *difference;
    json value;
  } const changes[] = {
      {"cpu", "allowed", "cpu/allowed: 2, 1", 1},
      {"cpu", "governor", "cpu/governor: null, \"powersave\"", "powersave"},
      {"cpu", "mhz_max", "cpu/mhz_max: null, 3000.0", 3000.0},
      {"system", "cpu_quota", "system/cpu_quota: \"max 100000\", \"50000 100000\"", "50000 100000"},
      {"system", "hypervisor", "system/hypervisor: \"KVMKVMKVM\", \"VMwareVMware\"",
       "VMwareVMware"},
      {"memory", "total_bytes", "memory/total_gib: 24, 12", std::size_t{12} << 30},
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
  other["memory"]["total_bytes"] = (std::size_t{24} << 30) - (std::size_t{100} << 20);
  EXPECT_EQ(differences(machine(), other), Lines{});
}

// Ledgers of then hold the hash of what was compared then.
TEST(Environment, OfOlderLedgersIsWhatItWas) {
  json old = machine();
  old["system"].erase("hypervisor");
  json changed = old;
  changed["cpu"]["allowed"] = 1;
  changed["memory"]["total_bytes"] = 1;
  EXPECT_EQ(environment_hash(old), environment_hash(changed));
}

TEST(Environment, OfThisMachineIsTheSameTwice) {
  EXPECT_EQ(environment_hash(provenance()), environment_hash(provenance()));
}

} // namespace
} // namespace clusterbench

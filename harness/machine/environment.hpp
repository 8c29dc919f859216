// What must be equal for two times to be comparable, taken from a ledger header's provenance.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace clusterbench {

/// The processor down to its microcode, caches and cores, with its governor and how many of its
/// cores may be used; memory; GPUs with driver, memory, clocks and MIG; kernel and hypervisor; and
/// the variables that steer threads and libraries.
nlohmann::json comparable_environment(const nlohmann::json& provenance);

/// Identifies that environment: SHA-256 of its JSON.
std::string environment_hash(const nlohmann::json& provenance);

/// What differs between two environments, each in a few words: "cpu/model: A, B". Where one is of a
/// ledger that is too old to tell something, that is no difference; nor is where tools are found.
std::vector<std::string> environment_differences(const nlohmann::json& a, const nlohmann::json& b);

/// The first five differences and how many there are more, in a line.
std::string listed(const std::vector<std::string>& differences);

} // namespace clusterbench

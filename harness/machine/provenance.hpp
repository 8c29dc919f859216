// Under which conditions a result came about: machine, system, build, libraries. No host name, no
// user, no serial number: a ledger may be published.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace clusterbench {

/// One level of the cache hierarchy.
struct CpuCache {
  int level = 0;
  std::string type;          ///< "Data", "Instruction" or "Unified"
  std::size_t bytes = 0;     ///< of one instance
  std::size_t instances = 0; ///< on the whole machine
};

/// The caches, by level; empty where the system does not tell.
std::vector<CpuCache> cpu_caches();

/// Everything that a ledger's header records, under the keys build, cpu, memory, system,
/// environment, libraries and gpu. What a system does not tell is null. Never creates a CUDA
/// context.
nlohmann::json provenance();

} // namespace clusterbench

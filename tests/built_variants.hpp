// The variants of this build, loaded as the runner loads them.
#pragma once

#include "harness/problem/registry.hpp"
#include "harness/system/program_folder.hpp"
#include "harness/worker/module.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// One of them by name. Throws std::runtime_error if there is no such module.
inline const RegisteredVariant& built_variant(const std::string& name) {
  return load_module(module_file(program_folder() / "modules", name));
}

/// All modules for that device, by name.
inline std::vector<RegisteredVariant> built_variants(Device device) {
  std::vector<RegisteredVariant> built;
  for (const KnownVariant* known : all_variants()) {
    if (!known->is_program && known->meta.device == device) {
      built.push_back(built_variant(known->meta.name));
    }
  }
  return built;
}

} // namespace clusterbench

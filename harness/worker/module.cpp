#include "harness/worker/module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <stdexcept>

namespace clusterbench {

std::filesystem::path module_file(const std::filesystem::path& folder, const std::string& variant) {
  return folder / (variant + ".so");
}

const RegisteredVariant& load_module(const std::filesystem::path& file) {
  // Local: no symbol of a module takes the place of another's, or of ours.
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), dlerror()));
  }
  using Registry = std::vector<RegisteredVariant>;
  constexpr int kContract = 3; // the version of impls/contract.hpp
  const auto contract = [&](int version) {
    return dlsym(module, fmt::format("clusterbench_contract_{}", version).c_str());
  };
  const auto registered = reinterpret_cast<void* (*)()>(contract(kContract));
  if (registered == nullptr) {
    constexpr int kVersions = 10; // to come
    for (int version = 1; version <= kVersions; ++version) {
      if (contract(version) != nullptr) {
        throw std::runtime_error(fmt::format(
            "{}: a module of version {} of the contract, and no module of version {} of "
            "the contract",
            file.string(), version, kContract));
      }
    }
    throw std::runtime_error(
        fmt::format("{}: no module of version {} of the contract", file.string(), kContract));
  }
  const Registry& variants = *static_cast<const Registry*>(registered());
  if (variants.size() != 1) {
    throw std::runtime_error(fmt::format("{}: holds {} registrations, a module has one",
                                         file.string(), variants.size()));
  }
  return variants.front();
}

const RegisteredVariant& load_module_of(const std::string& variant,
                                        const std::filesystem::path& file) {
  const RegisteredVariant& registered = load_module(file);
  if (registered.meta.name != variant) {
    throw std::runtime_error(
        fmt::format("{}: holds {}, not {}", file.string(), registered.meta.name, variant));
  }
  return registered;
}

} // namespace clusterbench

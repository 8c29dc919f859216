// Modules: shared objects that hold one variant each.
#pragma once

#include "impls/contract.hpp"

#include <filesystem>
#include <string>

namespace clusterbench {

/// The file of a variant's module in the folder of modules.
std::filesystem::path module_file(const std::filesystem::path& folder, const std::string& variant);

/// Loads a module and returns the one variant that it holds. A loaded module stays until the
/// process ends. Throws std::runtime_error that names the file: it cannot be loaded, it is of
/// another version of the contract, or it holds no variant or several.
const RegisteredVariant& load_module(const std::filesystem::path& file);

/// The same of a module that must hold the variant of that name: a file that was exchanged for
/// another's is not measured under the old name.
const RegisteredVariant& load_module_of(const std::string& variant,
                                        const std::filesystem::path& file);

} // namespace clusterbench

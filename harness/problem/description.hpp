// What a module or a program says of the variants that it holds (docs/peers.md, "A description").
#pragma once

#include "harness/problem/registry.hpp"
#include "harness/system/protocol_version.hpp"

namespace clusterbench {

/// The variant of one description; `file`: its source or its program. Throws datasets::InputError
/// that names the field.
KnownVariant variant_from(const nlohmann::json& description, const std::filesystem::path& file);

/// The variants of a program from its reply to `describe`. Throws datasets::InputError that names
/// the program and what is wrong.
std::vector<KnownVariant> variants_from(const nlohmann::json& reply,
                                        const std::filesystem::path& program);

} // namespace clusterbench

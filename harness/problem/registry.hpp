// The registered variants, sorted and searchable by name.
#pragma once

#include "impls/contract.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

/// Element type of a cell's data.
enum class Precision { f32, f64 };

std::string_view to_string(Family family);
std::string_view to_string(Device device);
std::string_view to_string(Arithmetic arithmetic);
std::string_view to_string(Multiplier multiplier);
std::string_view to_string(Precision precision);

/// All variants by name. Throws std::logic_error if two files register the same name.
std::vector<const RegisteredVariant*> all_variants();

/// The variant of that name, or nullptr.
const RegisteredVariant* find_variant(std::string_view name);

/// Variants that match any of the shell globs, by name. Throws datasets::InputError for a glob that
/// matches nothing, with the nearest name.
std::vector<const RegisteredVariant*> match_variants(const std::vector<std::string>& globs);

/// Whether the variant has an implementation in that precision.
bool supports(const RegisteredVariant& variant, Precision precision);

/// The folder under impls/ that holds the variant.
std::string backend_of(const RegisteredVariant& variant);

/// Why the variant cannot run on this machine at all; empty if it can. Creates no device context.
std::string unavailable_reason(const RegisteredVariant& variant);

/// The factory of a variant in precision T.
template <typename T>
std::unique_ptr<Variant<T>> make_variant(const RegisteredVariant& variant) {
  if constexpr (std::is_same_v<T, float>) {
    return variant.factories.f32();
  } else {
    return variant.factories.f64();
  }
}

} // namespace clusterbench

#include "harness/problem/registry.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/peer/peers.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fnmatch.h>
#include <stdexcept>

namespace clusterbench {

std::string_view to_string(Family family) {
  return family == Family::kmeans ? "kmeans" : "fcm";
}

std::string_view to_string(Device device) {
  switch (device) {
  case Device::cpu:
    return "cpu";
  case Device::gpu:
    return "gpu";
  case Device::multi_gpu:
    return "multi_gpu";
  case Device::mpi:
    return "mpi";
  }
  throw std::logic_error("unknown device");
}

std::string_view to_string(Arithmetic arithmetic) {
  switch (arithmetic) {
  case Arithmetic::as_data:
    return "as data";
  case Arithmetic::tf32:
    return "tf32";
  case Arithmetic::bf16:
    return "bf16";
  case Arithmetic::f16:
    return "f16";
  }
  throw std::logic_error("unknown arithmetic");
}

std::string_view to_string(Multiplier multiplier) {
  switch (multiplier) {
  case Multiplier::fma:
    return "fma";
  case Multiplier::tensor_tf32:
    return "tensor tf32";
  case Multiplier::tensor_f16:
    return "tensor f16";
  }
  throw std::logic_error("unknown multiplier");
}

std::string_view to_string(Precision precision) {
  return precision == Precision::f32 ? "f32" : "f64";
}

std::vector<const RegisteredVariant*> all_variants() {
  register_peers();
  std::vector<const RegisteredVariant*> variants;
  for (const RegisteredVariant& variant : registered_variants()) {
    variants.push_back(&variant);
  }
  std::ranges::sort(variants, {}, [](const RegisteredVariant* v) { return v->meta.name; });
  const auto twice = std::ranges::adjacent_find(
      variants, {}, [](const RegisteredVariant* v) { return v->meta.name; });
  if (twice != variants.end()) {
    throw std::logic_error(fmt::format("variant {} is registered twice: in {} and in {}",
                                       (*twice)->meta.name, (*twice)->file,
                                       (*std::next(twice))->file));
  }
  return variants;
}

const RegisteredVariant* find_variant(std::string_view name) {
  register_peers();
  for (const RegisteredVariant& variant : registered_variants()) {
    if (variant.meta.name == name) {
      return &variant;
    }
  }
  return nullptr;
}

std::vector<const RegisteredVariant*> match_variants(const std::vector<std::string>& globs) {
  const auto variants = all_variants();
  std::vector<bool> taken(variants.size(), false);
  for (const std::string& glob : globs) {
    bool matched = false;
    for (std::size_t i = 0; i < variants.size(); ++i) {
      if (fnmatch(glob.c_str(), variants[i]->meta.name.c_str(), 0) == 0) {
        taken[i] = true;
        matched = true;
      }
    }
    if (!matched) {
      std::vector<std::string> names;
      for (const auto* variant : variants) {
        names.push_back(variant->meta.name);
      }
      throw datasets::InputError(fmt::format("--variant {}: no variant matches; did you mean {}?",
                                             glob, datasets::nearest(glob, names)));
    }
  }
  std::vector<const RegisteredVariant*> matching;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (taken[i]) {
      matching.push_back(variants[i]);
    }
  }
  return matching;
}

bool supports(const RegisteredVariant& variant, Precision precision) {
  return precision == Precision::f32 ? static_cast<bool>(variant.factories.f32)
                                     : static_cast<bool>(variant.factories.f64);
}

std::string backend_of(const RegisteredVariant& variant) {
  return std::filesystem::path(variant.file).parent_path().filename().string();
}

std::string unavailable_reason(const RegisteredVariant& variant) {
  const bool needs_gpu =
      variant.meta.device == Device::gpu || variant.meta.device == Device::multi_gpu;
  const Peer* peer = find_peer(variant.meta.name);
  const std::string program = peer != nullptr ? start_of(*peer).reason_if_not : "";
  return program.empty() && needs_gpu ? gpu_missing_reason() : program;
}

} // namespace clusterbench

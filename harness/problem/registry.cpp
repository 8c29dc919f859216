#include "harness/problem/registry.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/problem/description.hpp"
#include "harness/problem/programs.hpp"
#include "harness/system/files.hpp"
#include "harness/system/program_folder.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <fnmatch.h>
#include <fstream>
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

namespace {

// "name, source file, backend" of every module of this build.
void add_modules(std::deque<KnownVariant>& variants) {
  const std::filesystem::path folder = program_folder() / "modules";
  std::ifstream list(folder / "list");
  for (std::string name, file, backend; list >> name >> backend >> std::ws && std::getline(list, file);) {
    const auto path = folder / (name + ".json");
    variants.push_back(variant_from(read_json_file(path), file));
    variants.back().backend = backend;
  }
}

const std::deque<KnownVariant>& known_variants() {
  static const std::deque<KnownVariant> variants = [] {
    std::deque<KnownVariant> known;
    add_modules(known);
    add_programs(known);
    std::ranges::sort(known, {}, [](const KnownVariant& variant) { return variant.meta.name; });
    return known;
  }();
  return variants;
}

} // namespace

const std::vector<const KnownVariant*>& all_variants() {
  static const std::vector<const KnownVariant*> variants = [] {
    std::vector<const KnownVariant*> pointers;
    for (const KnownVariant& variant : known_variants()) {
      if (!pointers.empty() && pointers.back()->meta.name == variant.meta.name) {
        throw std::logic_error(fmt::format("variant {} is there twice: in {} and in {}",
                                           variant.meta.name, pointers.back()->file.string(),
                                           variant.file.string()));
      }
      pointers.push_back(&variant);
    }
    return pointers;
  }();
  return variants;
}

const KnownVariant* find_variant(std::string_view name) {
  const auto& variants = all_variants();
  const auto found =
      std::ranges::find_if(variants, [&](const auto* variant) { return variant->meta.name == name; });
  return found == variants.end() ? nullptr : *found;
}

std::vector<const KnownVariant*> match_variants(const std::vector<std::string>& globs) {
  const auto& variants = all_variants();
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
  std::vector<const KnownVariant*> matching;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (taken[i]) {
      matching.push_back(variants[i]);
    }
  }
  return matching;
}

bool supports(const KnownVariant& variant, Precision precision) {
  return std::ranges::find(variant.precisions, precision) != variant.precisions.end();
}

std::string unavailable_reason(const KnownVariant& variant) {
  const bool needs_gpu =
      variant.meta.device == Device::gpu || variant.meta.device == Device::multi_gpu;
  const std::string program = variant.is_program ? start_of(variant).reason_if_not : "";
  return program.empty() && needs_gpu ? gpu_missing_reason() : program;
}

} // namespace clusterbench

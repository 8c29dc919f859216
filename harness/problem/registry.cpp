#include "harness/problem/registry.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/problem/description.hpp"
#include "harness/problem/programs.hpp"
#include "harness/system/files.hpp"
#include "harness/system/find_program.hpp"
#include "harness/system/program_folder.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <fstream>
#include <stdexcept>

namespace clusterbench {

namespace {

// "name, source file, backend" of every module of this build.
void add_modules(std::deque<KnownVariant>& variants) {
  const std::filesystem::path folder = program_folder() / "modules";
  std::ifstream list(folder / "list");
  for (std::string name, file, backend;
       list >> name >> backend >> std::ws && std::getline(list, file);) {
    const auto path = folder / (name + ".json");
    try {
      variants.push_back(variant_from(read_json_file(path), file));
    } catch (const datasets::InputError& error) {
      throw datasets::InputError(fmt::format("{}: {}", path.string(), error.what()));
    }
    variants.back().backend = backend;
    note_module(variants.back());
  }
}

std::deque<KnownVariant>& known_variants() {
  static std::deque<KnownVariant> variants = [] {
    std::deque<KnownVariant> known;
    add_modules(known);
    add_programs(known);
    std::ranges::sort(known, {}, [](const KnownVariant& variant) { return variant.meta.name; });
    return known;
  }();
  return variants;
}

std::vector<const KnownVariant*>& variants_by_name() {
  static std::vector<const KnownVariant*> variants = [] {
    std::vector<const KnownVariant*> pointers;
    for (const KnownVariant& variant : known_variants()) {
      if (!pointers.empty() && pointers.back()->meta.name == variant.meta.name) {
        throw datasets::InputError(fmt::format("variant {} is there twice: in {} and in {}",
                                               variant.meta.name, pointers.back()->file.string(),
                                               variant.file.string()));
      }
      pointers.push_back(&variant);
    }
    return pointers;
  }();
  return variants;
}

} // namespace

const std::vector<const KnownVariant*>& all_variants() {
  return variants_by_name();
}

void add_variant(KnownVariant variant) {
  auto& variants = variants_by_name();
  const auto at = std::ranges::lower_bound(
      variants, variant.meta.name, {}, [](const KnownVariant* each) { return each->meta.name; });
  if (at != variants.end() && (*at)->meta.name == variant.meta.name) {
    throw datasets::InputError(
        fmt::format("{}: there is a variant {} already, in {}; give yours another name",
                    variant.file.string(), variant.meta.name, (*at)->file.string()));
  }
  note_wanted_modules(variant);
  note_module(variant);
  variants.insert(at, &known_variants().emplace_back(std::move(variant)));
}

const KnownVariant* find_variant(std::string_view name) {
  const auto& variants = all_variants();
  const auto found = std::ranges::find_if(
      variants, [&](const auto* variant) { return variant->meta.name == name; });
  return found == variants.end() ? nullptr : *found;
}

std::vector<const KnownVariant*> match_variants(const std::vector<std::string>& globs,
                                                const char* option) {
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
      throw datasets::InputError(
          fmt::format("{} {}: no variant matches; did you mean {}? There are {}: `clusterbench "
                      "list` says what each "
                      "is, and `clusterbench judge` takes a file that is not among them",
                      option, glob, datasets::nearest(glob, names), fmt::join(names, ", ")));
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

int gpus_of(const Meta& meta, int gpus) {
  if (!computes_on_gpus(meta.device)) {
    return 0;
  }
  return meta.device == Device::gpu ? 1 : gpus;
}

int ranks_of(const Meta& meta, int ranks, int gpus) {
  if (!has_ranks(meta.device)) {
    return 0;
  }
  return meta.device == Device::mpi ? ranks : gpus;
}

std::string unavailable_reason(const KnownVariant& variant) {
  if (has_ranks(variant.meta.device) && find_program("mpirun").empty()) {
    return "mpirun was not found on the PATH (Debian package openmpi-bin)";
  }
  const bool needs_gpu = computes_on_gpus(variant.meta.device);
  if (!variant.is_program) {
    return needs_gpu ? cuda_missing_reason() : "";
  }
  const std::string program = start_of(variant).reason_if_not;
  return program.empty() && needs_gpu ? gpu_missing_reason() : program; // it brings its own CUDA
}

} // namespace clusterbench

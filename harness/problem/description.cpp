#include "harness/problem/description.hpp"

#include "datasets/errors.hpp"
#include "harness/problem/problem_spec.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

// One of several words as the value that it stands for.
template <typename Value, std::size_t N>
Value one_of(const json& variant, const char* field, const char* standard,
             const std::array<std::pair<const char*, Value>, N>& words) {
  const auto word = variant.value(field, std::string(standard));
  const auto found = std::ranges::find(words, word, &std::pair<const char*, Value>::first);
  if (found == words.end()) {
    std::string known;
    for (const auto& [name, value] : words) {
      known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", name);
    }
    throw InputError(fmt::format("{}: \"{}\" is none of {}", field, word, known));
  }
  return found->second;
}

bool contains(const std::vector<std::string>& words, const char* word) {
  return std::ranges::find(words, word) != words.end();
}

StopRule::Kind stop_kind(const std::string& word) {
  constexpr std::array kinds = {
      std::pair{"iterations", StopRule::Kind::iterations}, std::pair{"loss", StopRule::Kind::loss},
      std::pair{"labels", StopRule::Kind::labels}, std::pair{"shift", StopRule::Kind::shift}};
  return one_of(json{{"stops", word}}, "stops", "", kinds);
}

Meta meta_from(const json& variant) {
  Meta meta;
  meta.name = variant.at("name");
  meta.idea = variant.at("idea");
  meta.source = variant.at("source");
  meta.family = parse_family(variant.value("family", "kmeans"));
  meta.device = one_of(variant, "device", "cpu",
                       std::array{std::pair{"cpu", Device::cpu}, std::pair{"gpu", Device::gpu},
                                  std::pair{"multi_gpu", Device::multi_gpu},
                                  std::pair{"mpi", Device::mpi}});
  meta.arithmetic = one_of(
      variant, "arithmetic", "as data",
      std::array{std::pair{"as data", Arithmetic::as_data}, std::pair{"tf32", Arithmetic::tf32},
                 std::pair{"bf16", Arithmetic::bf16}, std::pair{"f16", Arithmetic::f16}});
  meta.multiplier = one_of(variant, "multiplier", "fma",
                           std::array{std::pair{"fma", Multiplier::fma},
                                      std::pair{"tensor tf32", Multiplier::tensor_tf32},
                                      std::pair{"tensor f16", Multiplier::tensor_f16}});
  if (!variant.contains("multiplier") && meta.device == Device::gpu &&
      meta.arithmetic != Arithmetic::as_data) {
    meta.multiplier =
        meta.arithmetic == Arithmetic::tf32 ? Multiplier::tensor_tf32 : Multiplier::tensor_f16;
  }
  meta.distance = one_of(variant, "distance", "difference",
                         std::array{std::pair{"difference", DistanceForm::difference},
                                    std::pair{"expanded", DistanceForm::expanded}});
  meta.labels = one_of(variant, "labels", "before update",
                       std::array{std::pair{"before update", LabelsFrom::entering_centroids},
                                  std::pair{"after update", LabelsFrom::returned_centroids}});
  meta.deterministic = variant.value("deterministic", true);
  meta.reseeds_empty = variant.value("reseeds_empty", false);
  meta.approximate_within = variant.value("approximate_within", 0.0);
  meta.min_d = variant.value("min_d", meta.min_d);
  meta.max_d = variant.value("max_d", meta.max_d);
  meta.max_k = variant.value("max_k", meta.max_k);
  meta.previous = variant.value("previous", "");
  return meta;
}

} // namespace

KnownVariant variant_from(const json& description, const std::filesystem::path& file) {
  KnownVariant variant;
  variant.file = file;
  variant.description = description;
  variant.meta = meta_from(description);
  for (const std::string precision : description.value("precisions", json::array({"f32", "f64"}))) {
    variant.precisions.push_back(parse_precision(precision));
  }
  for (const std::string rule : description.value("stops", json::array({"iterations"}))) {
    variant.stops.push_back(stop_kind(rule));
  }
  const auto starts = description.value("starts", std::vector<std::string>{"centroids"});
  variant.starts_from_centroids = contains(starts, "centroids");
  variant.starts_from_memberships = contains(starts, "memberships");
  variant.records = description.value("records", false);
  variant.gives_entering = description.value("gives_entering", false);
  variant.centres_points = description.value("centres_points", false);
  for (const json& module : description.value("modules", json::array())) {
    const std::string name = module.at("module");
    variant.modules.push_back(
        {name, module.value("distribution", name), module.value("at_least", "")});
  }
  return variant;
}

std::vector<KnownVariant> variants_from(const json& reply, const std::filesystem::path& program) {
  try {
    if (const int protocol = reply.at("protocol"); protocol != kProtocol) {
      throw InputError(
          fmt::format("it speaks protocol {}, this program knows {}", protocol, kProtocol));
    }
    std::vector<KnownVariant> variants;
    for (const json& description : reply.at("variants")) {
      KnownVariant& variant = variants.emplace_back(variant_from(description, program));
      variant.is_program = true;
      variant.backend = program.parent_path().filename().string();
      if (!variant.meta.name.starts_with(program.stem().string())) {
        throw InputError(fmt::format("the variant {} does not begin with the file's stem",
                                     variant.meta.name));
      }
    }
    return variants;
  } catch (const json::exception& error) {
    throw InputError(fmt::format("{}: its description: {}", program.string(), error.what()));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: its description: {}", program.string(), error.what()));
  }
}

} // namespace clusterbench

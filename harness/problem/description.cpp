#include "harness/problem/description.hpp"

#include "datasets/errors.hpp"
#include "harness/problem/problem_spec.hpp"
#include "harness/system/nesting.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/format.h>
#include <type_traits>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

[[noreturn]] void fail(const char* name, const json& value, const char* wanted) {
  const std::string text = value.dump();
  throw InputError(fmt::format("{}: {}{} is no {}", name, text.substr(0, 40),
                               text.size() > 40 ? "..." : "", wanted));
}

// A value of the type that is asked for.
template <typename T>
T value_of(const char* name, const json& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value.is_boolean() ? value.get<bool>() : (fail(name, value, "boolean"), T());
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.is_string() ? value.get<std::string>() : (fail(name, value, "text"), T());
  } else if constexpr (std::is_same_v<T, std::size_t>) {
    const bool is_count =
        value.is_number_integer() && (value.is_number_unsigned() || value.get<std::int64_t>() >= 0);
    return is_count ? value.get<std::size_t>() : (fail(name, value, "whole number"), T());
  } else if constexpr (std::is_same_v<T, double>) {
    return value.is_number() ? value.get<double>() : (fail(name, value, "number"), T());
  } else {
    static_assert(std::is_same_v<T, std::vector<std::string>>);
    if (!value.is_array()) {
      fail(name, value, "list");
    }
    std::vector<std::string> words;
    for (const json& word : value) {
      words.push_back(value_of<std::string>(name, word));
    }
    return words;
  }
}

template <typename T>
T field(const json& object, const char* name) {
  if (!object.contains(name)) {
    throw InputError(fmt::format("there is no {}", name));
  }
  return value_of<T>(name, object.at(name));
}

template <typename T>
T field(const json& object, const char* name, const T& standard) {
  return object.contains(name) ? value_of<T>(name, object.at(name)) : standard;
}

std::vector<json> objects(const json& of, const char* name) {
  const json list = of.value(name, json::array());
  if (!list.is_array()) {
    fail(name, list, "list");
  }
  for (const json& element : list) {
    if (!element.is_object()) {
      fail(name, element, "object");
    }
  }
  return list;
}

// One of several words as the value that it stands for.
template <typename Value, std::size_t N>
Value word_of(const std::string& word, const char* name,
              const std::array<std::pair<const char*, Value>, N>& words) {
  const auto found = std::ranges::find(words, word, &std::pair<const char*, Value>::first);
  if (found == words.end()) {
    std::string known;
    for (const auto& [each, value] : words) {
      known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", each);
    }
    throw InputError(fmt::format("{}: \"{}\" is none of {}", name, word, known));
  }
  return found->second;
}

template <typename Value, std::size_t N>
Value one_of(const json& variant, const char* name, const char* standard,
             const std::array<std::pair<const char*, Value>, N>& words) {
  return word_of(field<std::string>(variant, name, standard), name, words);
}

bool contains(const std::vector<std::string>& words, const char* word) {
  return std::ranges::find(words, word) != words.end();
}

StopRule::Kind stop_kind(const std::string& word) {
  constexpr std::array kinds = {
      std::pair{"iterations", StopRule::Kind::iterations}, std::pair{"loss", StopRule::Kind::loss},
      std::pair{"labels", StopRule::Kind::labels}, std::pair{"shift", StopRule::Kind::shift}};
  return word_of(word, "stops", kinds);
}

Meta meta_from(const json& variant) {
  Meta meta;
  meta.name = field<std::string>(variant, "name");
  check_printable(meta.name, "the variant");
  if (meta.name.find_first_of("/ ") != std::string::npos) { // it is a part of files' names
    throw InputError(fmt::format("the variant \"{}\": the name has a slash or a blank", meta.name));
  }
  meta.idea = field<std::string>(variant, "idea");
  check_printable(meta.idea, fmt::format("the idea of {}:", meta.name));
  meta.source = field<std::string>(variant, "source");
  check_printable(meta.source, fmt::format("the source of {}:", meta.name));
  meta.family = parse_family(field<std::string>(variant, "family", "kmeans"));
  meta.device =
      one_of(variant, "device", "cpu",
             std::array{std::pair{"cpu", Device::cpu}, std::pair{"gpu", Device::gpu},
                        std::pair{"multi_gpu", Device::multi_gpu}, std::pair{"mpi", Device::mpi},
                        std::pair{"mpi_gpu", Device::mpi_gpu}});
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
  meta.deterministic = field(variant, "deterministic", true);
  meta.reseeds_empty = field(variant, "reseeds_empty", false);
  meta.streams = field(variant, "streams", false);
  meta.points_on_host = field(variant, "points_on_host", false);
  meta.takes_weights = field(variant, "takes_weights", false);
  meta.approximate_within = field(variant, "approximate_within", 0.0);
  // Of twice the oracle's objective or more there is nothing to say.
  if (!(meta.approximate_within >= 0.0 && meta.approximate_within <= 1.0)) {
    fail("approximate_within", variant.at("approximate_within"), "number from 0 to 1");
  }
  meta.min_d = field(variant, "min_d", meta.min_d);
  meta.max_d = field(variant, "max_d", meta.max_d);
  meta.max_k = field(variant, "max_k", meta.max_k);
  meta.previous = field<std::string>(variant, "previous", "");
  return meta;
}

} // namespace

KnownVariant variant_from(const json& description, const std::filesystem::path& file) {
  if (!description.is_object() || nests_too_deeply(description)) {
    throw InputError("it is no object of a few levels");
  }
  using Words = std::vector<std::string>;
  KnownVariant variant;
  variant.file = file;
  variant.description = description;
  variant.meta = meta_from(description);
  for (const std::string& precision : field(description, "precisions", Words{"f32", "f64"})) {
    variant.precisions.push_back(parse_precision(precision));
  }
  for (const std::string& rule : field(description, "stops", Words{"iterations"})) {
    variant.stops.push_back(stop_kind(rule));
  }
  const auto starts = field(description, "starts", Words{"centroids"});
  variant.starts_from_centroids = contains(starts, "centroids");
  variant.starts_from_memberships = contains(starts, "memberships");
  variant.records = field(description, "records", false);
  variant.gives_entering = field(description, "gives_entering", false);
  variant.centres_points = field(description, "centres_points", false);
  for (const json& module : objects(description, "modules")) {
    const auto name = field<std::string>(module, "module");
    variant.modules.push_back(
        {name, field(module, "distribution", name), field<std::string>(module, "at_least", "")});
    check_printable(name, fmt::format("a module of {}:", variant.meta.name));
  }
  return variant;
}

std::vector<KnownVariant> variants_from(const json& reply, const std::filesystem::path& program) {
  try {
    if (!reply.is_object()) {
      throw InputError("it is no object");
    }
    if (const auto protocol = field<std::size_t>(reply, "protocol"); protocol != kProtocol) {
      throw InputError(
          fmt::format("it speaks protocol {}, this program knows {}", protocol, kProtocol));
    }
    if (!reply.contains("variants")) {
      throw InputError("there is no variants");
    }
    std::vector<KnownVariant> variants;
    for (const json& description : objects(reply, "variants")) {
      KnownVariant& variant = variants.emplace_back(variant_from(description, program));
      variant.is_program = true;
      variant.backend = program.parent_path().filename().string();
      if (!variant.meta.name.starts_with(program.stem().string())) {
        throw InputError(
            fmt::format("the variant {} does not begin with the file's stem", variant.meta.name));
      }
    }
    return variants;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: its description: {}", program.string(), error.what()));
  }
}

} // namespace clusterbench

#include "harness/peer/description.hpp"

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
  meta.launch = Launch::program;
  meta.device = one_of(variant, "device", "cpu",
                       std::array{std::pair{"cpu", Device::cpu}, std::pair{"gpu", Device::gpu}});
  meta.arithmetic = one_of(
      variant, "arithmetic", "as data",
      std::array{std::pair{"as data", Arithmetic::as_data}, std::pair{"tf32", Arithmetic::tf32},
                 std::pair{"bf16", Arithmetic::bf16}, std::pair{"f16", Arithmetic::f16}});
  if (meta.device == Device::gpu && meta.arithmetic != Arithmetic::as_data) {
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
  return meta;
}

Peer peer_from(const json& variant, const std::filesystem::path& program) {
  Peer peer;
  peer.program = program;
  peer.description = variant;
  peer.meta = meta_from(variant);
  for (const std::string precision : variant.value("precisions", json::array({"f32", "f64"}))) {
    peer.precisions.push_back(parse_precision(precision));
  }
  for (const std::string rule : variant.value("stops", json::array({"iterations"}))) {
    peer.stops.push_back(stop_kind(rule));
  }
  const auto starts = variant.value("starts", std::vector<std::string>{"centroids"});
  peer.starts_from_centroids = contains(starts, "centroids");
  peer.starts_from_memberships = contains(starts, "memberships");
  peer.records = variant.value("records", false);
  peer.centres_points = variant.value("centres_points", false);
  for (const json& module : variant.value("modules", json::array())) {
    const std::string name = module.at("module");
    peer.modules.push_back(
        {name, module.value("distribution", name), module.value("at_least", "")});
  }
  return peer;
}

} // namespace

std::vector<Peer> peers_from(const json& reply, const std::filesystem::path& program) {
  try {
    if (const int protocol = reply.at("protocol"); protocol != kPeerProtocol) {
      throw InputError(
          fmt::format("it speaks protocol {}, this program knows {}", protocol, kPeerProtocol));
    }
    std::vector<Peer> peers;
    for (const json& variant : reply.at("variants")) {
      peers.push_back(peer_from(variant, program));
      const std::string& name = peers.back().meta.name;
      if (!name.starts_with(program.stem().string())) {
        throw InputError(fmt::format("the variant {} does not begin with the file's stem", name));
      }
    }
    return peers;
  } catch (const json::exception& error) {
    throw InputError(fmt::format("{}: its description: {}", program.string(), error.what()));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: its description: {}", program.string(), error.what()));
  }
}

} // namespace clusterbench

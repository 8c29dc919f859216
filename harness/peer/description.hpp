// What a program of another ecosystem says about the variants that it holds (docs/peers.md).
#pragma once

#include "harness/problem/registry.hpp"
#include "impls/contract.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

/// Version of the protocol, which a description states.
inline constexpr int kPeerProtocol = 2;

/// A Python module that a variant needs.
struct PeerModule {
  std::string module;       ///< as imported
  std::string distribution; ///< as installed, by which its version is found
  std::string at_least;     ///< the oldest version that will do; empty: any
};

/// One variant that another program holds.
struct Peer {
  std::filesystem::path program;
  Meta meta;
  std::vector<Precision> precisions;
  std::vector<StopRule::Kind> stops; ///< the rules that it can apply
  bool starts_from_centroids = true;
  bool starts_from_memberships = false;
  bool records = false;        ///< can hand over the centroids of every pass
  bool centres_points = false; ///< takes their mean off first, which decides what is rounded
  std::vector<PeerModule> modules;
  nlohmann::json description; ///< what all of this was read from

  /// Run by a Python interpreter that has the modules; any other program is executed.
  bool is_python() const { return program.extension() == ".py"; }
};

/// The variants of a program from its reply to `describe`. Throws datasets::InputError that names
/// the program and what is wrong.
std::vector<Peer> peers_from(const nlohmann::json& reply, const std::filesystem::path& program);

} // namespace clusterbench

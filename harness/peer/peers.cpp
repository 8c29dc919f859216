#include "harness/peer/peers.hpp"

#include "datasets/errors.hpp"
#include "datasets/sha256.hpp"
#include "harness/peer/built_in.hpp"
#include "harness/peer/connection.hpp"
#include "harness/peer/peer_variant.hpp"
#include "harness/peer/python.hpp"
#include "harness/run/process.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kVariable = "CLUSTERBENCH_PEERS";

// A deque: variants keep references to its elements.
std::deque<Peer>& known_peers() {
  static std::deque<Peer> peers;
  return peers;
}

// What a parent has told, by variant.
std::map<std::string, PeerStart>& known_starts() {
  static std::map<std::string, PeerStart> starts;
  return starts;
}

// A program of this build, which may have moved together with its source tree.
fs::path locate(const fs::path& program) {
  if (fs::exists(program)) {
    return program;
  }
  const fs::path backend = program.parent_path().filename();
  for (fs::path folder : {fs::current_path(), fs::path(own_path()).parent_path()}) {
    for (; folder.has_relative_path(); folder = folder.parent_path()) {
      if (const fs::path found = folder / "impls" / backend / program.filename();
          fs::exists(found)) {
        return found;
      }
    }
  }
  return program;
}

std::vector<fs::path> added_programs() {
  std::vector<fs::path> programs;
  const char* variable = std::getenv(kVariable);
  std::istringstream list(variable != nullptr ? variable : "");
  for (std::string program; std::getline(list, program, ':');) {
    if (!program.empty()) {
      programs.emplace_back(program);
    }
  }
  return programs;
}

json ask_for_description(const fs::path& program) {
  std::vector<std::string> command = {program.string()};
  if (program.extension() == ".py") {
    const auto commands = python_commands();
    const auto runs = std::ranges::find_if(
        commands, [](const auto& name) { return !look_at_python(name, {}).version.empty(); });
    if (runs == commands.end()) {
      throw InputError(fmt::format("{}: no Python 3 was found to run it", program.string()));
    }
    command.insert(command.begin(), *runs);
  }
  try {
    return PeerConnection(command, 1).ask({{"request", "describe"}}, std::chrono::seconds(20));
  } catch (const PeerFailure& failure) {
    throw InputError(
        fmt::format("{}: it does not describe itself: {}", program.string(), failure.what()));
  }
}

void add(const json& description, const fs::path& program) {
  for (Peer& described : peers_from(description, program)) {
    const Peer& peer = known_peers().emplace_back(std::move(described));
    Factories factories;
    for (const Precision precision : peer.precisions) {
      if (precision == Precision::f32) {
        factories.f32 = [&peer] { return std::make_unique<PeerVariant<float>>(peer); };
      } else {
        factories.f64 = [&peer] { return std::make_unique<PeerVariant<double>>(peer); };
      }
    }
    registered_variants().push_back({peer.meta, factories, program.string()});
  }
}

// An interpreter is looked at once, for all modules that any variant needs.
const Python& python(const std::string& command) {
  static std::map<std::string, Python> known;
  if (!known.contains(command)) {
    std::vector<PeerModule> modules;
    std::set<std::string> seen;
    for (const Peer& peer : known_peers()) {
      for (const PeerModule& module : peer.modules) {
        if (seen.insert(module.module).second) {
          modules.push_back(module);
        }
      }
    }
    known[command] = look_at_python(command, modules);
  }
  return known.at(command);
}

PeerStart start_with_python(const Peer& peer) {
  PeerStart start;
  for (const std::string& command : python_commands()) {
    const Python& candidate = python(command);
    const std::string missing = missing_modules(candidate, peer.modules);
    if (missing.empty()) {
      start = {{command, peer.program.string()},
               fmt::format("{} {}", command, candidate.version),
               {},
               ""};
      for (const PeerModule& module : peer.modules) {
        start.modules[module.module] = candidate.modules.at(module.module);
      }
      return start;
    }
    start.reason_if_not +=
        fmt::format("{}{}{}{}: {}", start.reason_if_not.empty() ? "" : "; ", command,
                    candidate.version.empty() ? "" : " ", candidate.version, missing);
  }
  return start;
}

} // namespace

void add_peer_program(const std::string& program) {
  if (!fs::is_regular_file(program)) {
    throw InputError(fmt::format("--peer {}: there is no such file", program));
  }
  const char* variable = std::getenv(kVariable);
  const std::string before = variable != nullptr ? std::string(variable) + ":" : "";
  setenv(kVariable, (before + fs::canonical(program).string()).c_str(), 1);
}

void register_peers() {
  static bool done = false;
  if (std::exchange(done, true)) {
    return;
  }
  for (const BuiltInPeer& peer : built_in_peers()) {
    add(json::parse(peer.description), locate(peer.program));
  }
  for (const fs::path& program : added_programs()) {
    add(ask_for_description(program), program);
  }
}

const Peer* find_peer(std::string_view name) {
  register_peers();
  const auto found =
      std::ranges::find_if(known_peers(), [&](const Peer& peer) { return peer.meta.name == name; });
  return found == known_peers().end() ? nullptr : &*found;
}

Declaration declaration_of(const Meta& meta) {
  const Peer* const peer = find_peer(meta.name);
  return {meta, peer != nullptr && peer->centres_points};
}

PeerStart start_of(const Peer& peer) {
  if (const auto known = known_starts().find(peer.meta.name); known != known_starts().end()) {
    return known->second;
  }
  if (!fs::exists(peer.program)) {
    return {{}, "", {}, fmt::format("{} is not there", peer.program.string())};
  }
  return peer.is_python() ? start_with_python(peer)
                          : PeerStart{{peer.program.string()}, "", {}, ""};
}

void know_start(const std::string& variant, const PeerStart& start) {
  known_starts()[variant] = start;
}

std::string fingerprint(const Peer& peer) {
  const PeerStart start = start_of(peer);
  json parts = {start.interpreter, start.modules};
  std::set<fs::path> files = {peer.program};
  if (const fs::path shared = peer.program.parent_path() / "support"; fs::is_directory(shared)) {
    for (const auto& entry : fs::directory_iterator(shared)) {
      if (entry.is_regular_file()) {
        files.insert(entry.path());
      }
    }
  }
  for (const fs::path& file : files) {
    parts.push_back(fs::exists(file) ? datasets::sha256_file(file) : "");
  }
  const std::string text = parts.dump();
  return datasets::sha256_hex(std::as_bytes(std::span(text)));
}

} // namespace clusterbench

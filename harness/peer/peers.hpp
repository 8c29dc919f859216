// Which programs hold variants, and how each is started here.
#pragma once

#include "harness/judge/declaration.hpp"
#include "harness/peer/description.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench {

/// Adds a program to those that are asked for their variants; children of this process inherit it.
/// Throws datasets::InputError if there is no such file.
void add_peer_program(const std::string& program);

/// Registers the variants of all programs: those of this build, whose descriptions were taken when
/// it was made, and those added since or named in $CLUSTERBENCH_PEERS (separated by colons), which
/// are asked now. Does nothing the second time. Throws datasets::InputError for an added program
/// that cannot be asked.
void register_peers();

/// The program's variant of that name, or nullptr.
const Peer* find_peer(std::string_view name);

/// What the verifier has to know of a variant of any kind.
Declaration declaration_of(const Meta& meta);

/// How a variant's program is started here.
struct PeerStart {
  std::vector<std::string> command;
  std::string interpreter;                    ///< "/usr/bin/python3 3.11.2", say; or empty
  std::map<std::string, std::string> modules; ///< that the variant needs, with their versions
  std::string reason_if_not;                  ///< why it cannot be started, naming what was tried
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeerStart, command, interpreter, modules, reason_if_not)
PeerStart start_of(const Peer& peer);

/// Tells a child what its parent has found, so that it need not look at interpreters again.
void know_start(const std::string& variant, const PeerStart& start);

/// Changes when the variant's program, what it shares with others, or its libraries do.
std::string fingerprint(const Peer& peer);

} // namespace clusterbench

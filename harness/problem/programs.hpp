// Which programs of other ecosystems hold variants, and how each is started here.
#pragma once

#include "harness/problem/registry.hpp"

#include <deque>
#include <map>
#include <string>
#include <vector>

namespace clusterbench {

/// Adds a program to those that are asked for their variants. Throws datasets::InputError if there
/// is no such file.
void add_program(const std::string& program);

/// Adds the variants of all programs: those of this build, whose descriptions were taken when it
/// was made, and those added or named in $CLUSTERBENCH_PEERS (separated by colons), which are asked
/// now.
/// Throws datasets::InputError for one of the latter that cannot be asked.
void add_programs(std::deque<KnownVariant>& variants);

/// How a program is started that only describes itself. Throws datasets::InputError if nothing here
/// can run it.
std::vector<std::string> describing_command(const std::filesystem::path& program);

/// Has the interpreters asked for the modules of a variant, too. To be called before start_of().
void note_wanted_modules(const KnownVariant& variant);

/// How a variant's program is started here.
struct ProgramStart {
  std::vector<std::string> command;
  std::string interpreter;                    ///< "/usr/bin/python3 3.11.2", say; or empty
  std::map<std::string, std::string> modules; ///< that the variant needs, with their versions
  std::string reason_if_not;                  ///< why it cannot be started, naming what was tried
};
ProgramStart start_of(const KnownVariant& variant);

/// Changes when the variant's module, or its program, what that shares with others, or its
/// libraries do. Of a module it is that of the file as this process met it first; empty if there
/// was none that could be read.
std::string fingerprint(const KnownVariant& variant);

/// Empty, or why the variant's module is no longer the file that this process met first: it has
/// gone, or holds other bytes. Always empty of a program, which is no module.
std::string change_of_module(const KnownVariant& variant);

/// Remembers which file a module is, without reading it. To be called when a variant is made known.
void note_module(const KnownVariant& variant);

} // namespace clusterbench

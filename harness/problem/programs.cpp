#include "harness/problem/programs.hpp"

#include "datasets/errors.hpp"
#include "datasets/sha256.hpp"
#include "harness/problem/built_in_programs.hpp"
#include "harness/problem/description.hpp"
#include "harness/problem/python.hpp"
#include "harness/system/process.hpp"
#include "harness/system/program_folder.hpp"
#include "harness/system/short_answer.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kVariable = "CLUSTERBENCH_PEERS";
constexpr const char* kDescribe = R"({"request": "describe"})";

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
  json description;
  const auto is_description = [&](const std::string& line) {
    description = json::parse(line, nullptr, /*allow_exceptions=*/false);
    return description.is_object() && description.contains("reply") &&
           description.at("reply") == "describe";
  };
  const ShortAnswer answer = ask_shortly({describing_command(program), kDescribe}, is_description);
  if (!answer.failure.empty()) {
    throw InputError(
        fmt::format("{}: it does not describe itself: {}", program.string(), answer.failure));
  }
  return description;
}

std::vector<PythonModule>& wanted_modules() {
  static std::vector<PythonModule> modules;
  return modules;
}

void add(const json& description, const fs::path& program, std::deque<KnownVariant>& variants) {
  for (KnownVariant& variant : variants_from(description, program)) {
    note_wanted_modules(variant);
    variants.push_back(std::move(variant));
  }
}

// An interpreter is looked at once, for all modules that any variant needs.
const Python& python(const std::string& command) {
  static std::map<std::string, Python> known;
  if (!known.contains(command)) {
    std::vector<PythonModule> modules;
    std::set<std::string> seen;
    for (const PythonModule& module : wanted_modules()) {
      if (seen.insert(module.module).second) {
        modules.push_back(module);
      }
    }
    known[command] = look_at_python(command, modules);
  }
  return known.at(command);
}

ProgramStart start_with_python(const KnownVariant& variant) {
  ProgramStart start;
  for (const std::string& command : python_commands()) {
    const Python& candidate = python(command);
    const std::string missing = missing_modules(candidate, variant.modules);
    if (missing.empty()) {
      start = {{command, variant.file.string()},
               fmt::format("{} {}", command, candidate.version),
               {},
               ""};
      for (const PythonModule& module : variant.modules) {
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

fs::path module_of(const KnownVariant& variant) {
  return variant.module.empty() ? program_folder() / "modules" / (variant.meta.name + ".so")
                                : variant.module;
}

/// What tells without reading it that a file is not the one that it was.
struct FileMark {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  time_t seconds = 0;
  long nanoseconds = 0;
  bool operator==(const FileMark&) const = default;
};

// Nothing: there is no such file.
std::optional<FileMark> mark_of(const fs::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return FileMark{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                  status.st_mtim.tv_nsec};
}

/// A module as this process met it first. All of a build's hold a hundred megabytes, so that each
/// is read when it is needed, and read again only where its mark tells of a change.
struct MetModule {
  std::optional<FileMark> mark;
  std::string sha256; ///< empty: not read yet, or not there
};

MetModule& met_module(const KnownVariant& variant) {
  static std::map<fs::path, MetModule> met;
  const fs::path file = module_of(variant);
  const auto [found, is_new] = met.try_emplace(file);
  if (is_new) {
    found->second.mark = mark_of(file);
  }
  return found->second;
}

// Empty where it cannot be read: what it says is the business of whoever loads it.
std::string sha256_or_nothing(const fs::path& file) {
  try {
    return datasets::sha256_file(file);
  } catch (const InputError&) {
    return {};
  }
}

} // namespace

void note_wanted_modules(const KnownVariant& variant) {
  wanted_modules().insert(wanted_modules().end(), variant.modules.begin(), variant.modules.end());
}

std::vector<std::string> describing_command(const fs::path& program) {
  if (program.extension() != ".py") {
    return {program.string()};
  }
  const auto commands = python_commands();
  const auto runs = std::ranges::find_if(
      commands, [](const auto& name) { return !look_at_python(name, {}).version.empty(); });
  if (runs == commands.end()) {
    throw InputError(fmt::format("{}: no Python 3 was found to run it", program.string()));
  }
  return {*runs, program.string()};
}

void add_program(const std::string& program) {
  if (std::error_code none; !fs::is_regular_file(program, none)) {
    throw InputError(fmt::format("--peer {}: there is no such file", program));
  }
  const fs::path added = fs::canonical(program);
  if (const auto programs = added_programs();
      std::ranges::find(programs, added) == programs.end()) {
    const char* variable = std::getenv(kVariable);
    const std::string before = variable != nullptr ? std::string(variable) + ":" : "";
    setenv(kVariable, (before + added.string()).c_str(), 1);
  }
}

void add_programs(std::deque<KnownVariant>& variants) {
  for (const BuiltInProgram& program : built_in_programs()) {
    add(json::parse(program.description), locate(program.program), variants);
  }
  for (const fs::path& program : added_programs()) {
    add(ask_for_description(program), program, variants);
  }
}

ProgramStart start_of(const KnownVariant& variant) {
  static std::map<std::string, ProgramStart> known;
  if (const auto found = known.find(variant.meta.name); found != known.end()) {
    return found->second;
  }
  ProgramStart start;
  if (!fs::exists(variant.file)) {
    start.reason_if_not = fmt::format("{} is not there", variant.file.string());
  } else if (variant.file.extension() == ".py") {
    start = start_with_python(variant);
  } else {
    start.command = {variant.file.string()};
  }
  return known[variant.meta.name] = start;
}

std::string fingerprint(const KnownVariant& variant) {
  if (!variant.is_program) {
    MetModule& met = met_module(variant);
    if (met.sha256.empty() && met.mark && met.mark == mark_of(module_of(variant))) {
      met.sha256 = sha256_or_nothing(module_of(variant));
    }
    return met.sha256;
  }
  const ProgramStart start = start_of(variant);
  json parts = {start.interpreter, start.modules};
  std::set<fs::path> files = {variant.file, program_folder() / "python" / "clusterbench_peer.py"};
  if (const fs::path shared = variant.file.parent_path() / "support"; fs::is_directory(shared)) {
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

void note_module(const KnownVariant& variant) {
  met_module(variant);
}

std::string change_of_module(const KnownVariant& variant) {
  if (variant.is_program) {
    return {};
  }
  MetModule& met = met_module(variant);
  const fs::path file = module_of(variant);
  const std::optional<FileMark> mark = mark_of(file);
  if (mark == met.mark) {
    return {};
  }
  if (!mark) {
    return fmt::format("the module changed during the run: {} is no longer there", file.string());
  }
  if (met.sha256.empty() || sha256_or_nothing(file) != met.sha256) {
    return fmt::format("the module changed during the run: {} is another file", file.string());
  }
  met.mark = mark; // the same bytes again
  return {};
}

} // namespace clusterbench

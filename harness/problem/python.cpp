#include "harness/problem/python.hpp"

#include "harness/system/short_answer.hpp"
#include "harness/system/utf8.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace clusterbench {
namespace {

using nlohmann::json;

// find_spec() looks a top-level module up without importing it.
constexpr const char* kScript = R"(
import json, platform, sys
from importlib import metadata, util
found = {}
for pair in sys.argv[1:]:
    module, distribution = pair.split(":")
    if util.find_spec(module):
        try:
            found[module] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[module] = ""
print(json.dumps({"version": platform.python_version(), "modules": found}))
)";

std::vector<int> components(const std::string& version) {
  std::vector<int> numbers;
  std::istringstream stream(version);
  for (std::string part; std::getline(stream, part, '.');) {
    numbers.push_back(std::atoi(part.c_str())); // "0rc1" counts as 0
  }
  return numbers;
}

// The last line that an interpreter writes before it gives up, mostly the error itself. Asked for
// only where it has given no answer: among the lines of an answer warnings would be a nuisance.
std::string last_words_of(const std::vector<std::string>& command) {
  constexpr std::size_t kMostBytes = 300;
  std::string last;
  const auto keep = [&](const std::string& line) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      last = line.substr(0, kMostBytes);
    }
    return false;
  };
  constexpr std::chrono::seconds kPatience{20}; // it has ended before
  ask_shortly({.command = command, .text = "", .hears_errors = true, .patience = kPatience}, keep);
  const bool is_of_env = last.starts_with(command.front() + ": "); // there is no such interpreter
  return is_of_env ? "" : as_utf8(last);
}

} // namespace

std::vector<std::string> python_commands() {
  std::vector<std::string> commands;
  if (const char* chosen = std::getenv("CLUSTERBENCH_PYTHON"); chosen != nullptr && *chosen != 0) {
    commands.emplace_back(chosen);
  }
  for (const char* usual : {"python3", "/usr/bin/python3"}) {
    if (std::ranges::find(commands, usual) == commands.end()) {
      commands.emplace_back(usual);
    }
  }
  return commands;
}

Python look_at_python(const std::string& command, const std::vector<PythonModule>& modules) {
  std::vector<std::string> words = {"/usr/bin/env", command, "-c", kScript};
  for (const PythonModule& module : modules) {
    words.push_back(module.module + ":" + module.distribution);
  }
  Python python{command, "", {}};
  const auto tells_its_version = [&](const std::string& line) {
    const json answer = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object() || !answer.contains("version") || !answer.contains("modules")) {
      return false;
    }
    python.version = answer.at("version");
    python.modules = answer.at("modules");
    return true;
  };
  ask_shortly({words, ""}, tells_its_version);
  if (python.version.empty()) {
    python.last_words = last_words_of(words);
  }
  return python;
}

std::string missing_modules(const Python& python, const std::vector<PythonModule>& modules) {
  if (python.version.empty()) {
    return python.last_words.empty() ? "it does not run" : "it does not run: " + python.last_words;
  }
  std::string missing;
  for (const PythonModule& module : modules) {
    const auto found = python.modules.find(module.module);
    const std::string separator = missing.empty() ? "" : ", ";
    if (found == python.modules.end()) {
      missing += fmt::format("{}no module {}", separator, module.module);
    } else if (!found->second.empty() && !is_at_least(found->second, module.at_least)) {
      missing += fmt::format("{}{} {}, at least {} is needed", separator, module.module,
                             found->second, module.at_least);
    }
  }
  return missing;
}

bool is_at_least(const std::string& version, const std::string& wanted) {
  std::vector<int> have = components(version);
  std::vector<int> want = components(wanted);
  const std::size_t length = std::max(have.size(), want.size());
  have.resize(length);
  want.resize(length);
  return have >= want;
}

} // namespace clusterbench

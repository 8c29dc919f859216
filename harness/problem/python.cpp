#include "harness/problem/python.hpp"

#include "harness/system/short_answer.hpp"

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
  return python;
}

std::string missing_modules(const Python& python, const std::vector<PythonModule>& modules) {
  if (python.version.empty()) {
    return "it does not run";
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

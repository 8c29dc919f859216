// The Python interpreters of this machine, and which modules each of them has.
#pragma once

#include "harness/problem/registry.hpp"

#include <map>
#include <string>
#include <vector>

namespace clusterbench {

/// An interpreter. A python3 that comes first on the PATH need not be the one for which the
/// machine's packages were installed.
struct Python {
  std::string command; ///< as it is started
  std::string version; ///< empty if it does not run
  /// Versions of those modules that were asked for and found; empty: found, version unknown.
  std::map<std::string, std::string> modules;
  std::string last_words = {}; ///< why it does not run, where it says so
};

/// $CLUSTERBENCH_PYTHON, python3 and /usr/bin/python3, in the order in which they are tried.
std::vector<std::string> python_commands();

/// What an interpreter has of the modules; none is imported.
Python look_at_python(const std::string& command, const std::vector<PythonModule>& modules);

/// What an interpreter lacks of the modules, in words; empty: nothing.
std::string missing_modules(const Python& python, const std::vector<PythonModule>& modules);

/// Whether a version such as "1.10.1" is at least another, component by component.
bool is_at_least(const std::string& version, const std::string& wanted);

} // namespace clusterbench

#include "harness/gate/build_modules.hpp"

#include "datasets/errors.hpp"
#include "harness/worker/module.hpp"

#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sstream>

namespace clusterbench {
namespace {

using datasets::InputError;
namespace fs = std::filesystem;

std::string text_of(const fs::path& list) {
  const std::ifstream file(list);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) { // also where it is empty
    throw InputError(fmt::format(
        "{}: cannot be read, or is empty; a build has a list of its modules there", list.string()));
  }
  if (!text.str().ends_with('\n')) {
    throw InputError(fmt::format("{}: its last line is cut off", list.string()));
  }
  return text.str();
}

std::set<std::string> listed(const fs::path& build) {
  const fs::path folder = build / "modules";
  const fs::path list = folder / "list";
  std::istringstream lines(text_of(list));
  std::set<std::string> names;
  for (std::string line, name; std::getline(lines, line);) {
    if (!(std::istringstream(line) >> name)) {
      continue;
    }
    for (const fs::path& file : {module_file(folder, name), folder / (name + ".json")}) {
      if (std::error_code none; !fs::is_regular_file(file, none)) {
        throw InputError(
            fmt::format("{}: not there, and {} names it", file.string(), list.string()));
      }
    }
    names.insert(name);
  }
  return names;
}

} // namespace

const std::set<std::string>& variants_of_build(const fs::path& build) {
  static std::map<fs::path, std::set<std::string>> known;
  if (const auto found = known.find(build); found != known.end()) {
    return found->second;
  }
  return known.emplace(build, listed(build)).first->second;
}

} // namespace clusterbench

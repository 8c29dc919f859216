// Which variants a build has, by its list of modules.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace clusterbench {

/// The variants in the build's modules/list. They are read once in a process, so that a module that
/// vanishes later is no variant that the build never had. Throws datasets::InputError that names
/// the file: there is no list, it is cut off, or it names a module whose file is not there. Such a
/// build is half a copy, and says nothing of what it lacks.
const std::set<std::string>& variants_of_build(const std::filesystem::path& build);

} // namespace clusterbench

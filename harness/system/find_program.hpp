// Where a program is that a user has installed.
#pragma once

#include <filesystem>
#include <string>

namespace clusterbench {

/// The first program of that name on the PATH; empty if there is none.
std::filesystem::path find_program(const std::string& name);

} // namespace clusterbench

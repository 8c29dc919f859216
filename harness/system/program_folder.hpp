// Where the program finds what was built with it: runner, modules, plug-ins.
#pragma once

#include <filesystem>

namespace clusterbench {

/// The folder of the running program, or $CLUSTERBENCH_FOLDER.
std::filesystem::path program_folder();

} // namespace clusterbench

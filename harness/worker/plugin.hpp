// What the runner is built without: a shared object beside it holds a table of calls.
#pragma once

#include <dlfcn.h>

namespace clusterbench {

/// Loads plugins/`name`.so and returns the table that its function `symbol` gives. scope:
/// RTLD_GLOBAL lets what the plug-in exports stand before the libraries of modules that are loaded
/// later. Throws std::runtime_error.
const void* calls_of_plugin(const char* name, const char* symbol, int scope = RTLD_LOCAL);

} // namespace clusterbench

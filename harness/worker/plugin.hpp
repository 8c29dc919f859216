// What the runner is built without: a shared object beside it holds a table of calls.
#pragma once

namespace clusterbench {

/// Loads plugins/`name`.so and returns the table that its function `symbol` gives. Throws
/// std::runtime_error.
const void* calls_of_plugin(const char* name, const char* symbol);

} // namespace clusterbench

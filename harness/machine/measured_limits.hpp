// The machine's limits, measured in a process of its own: a GPU's probe needs a device context.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace clusterbench {

/// What `clusterbench probe --quick` finds with so many threads; empty if it fails.
nlohmann::json measure_limits(int threads);

} // namespace clusterbench

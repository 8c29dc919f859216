// Asks a file from outside which variants it holds: in the sandbox that it will run in.
#pragma once

#include "harness/submission/file_kind.hpp"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

struct Inspection {
  nlohmann::json description;             ///< the reply to `describe`
  std::vector<std::string> sandbox_lacks; ///< see enter_sandbox()
};

/// file: a module or a program. Throws datasets::InputError that names it and says what is wrong.
Inspection inspect(const std::filesystem::path& file, FileKind kind, bool sandboxed,
                   std::chrono::duration<double> patience);

} // namespace clusterbench

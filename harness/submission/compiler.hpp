// Makes a module of one source file, as the modules of this build were made.
#pragma once

#include "harness/submission/file_kind.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace clusterbench {

struct Compilation {
  std::filesystem::path module;     ///< in the scratch folder
  std::vector<std::string> command; ///< with the places of the files as they were
  double seconds = 0.0;
};

/// nvcc's flags for `architectures`, a list as CMake's CUDA_ARCHITECTURES has it, such as
/// "80-virtual;90": a number alone stands for machine code and PTX, "-real" and "-virtual" for one
/// of the two; "native", "all" and "all-major" are nvcc's own words.
std::vector<std::string> architecture_flags(const std::string& architectures);

/// The command that makes `module` of `source`: the compiler and the flags of this build for C++;
/// nvcc of this build, of $CUDACXX, the PATH or /usr/local/cuda for CUDA. Throws
/// datasets::InputError if there is no such compiler.
std::vector<std::string> compile_command(const std::filesystem::path& source, FileKind kind,
                                         const std::filesystem::path& module);

/// Compiles `source` into a module in `scratch`, where the compiler's own temporary files are, too.
/// What the compiler says goes to standard error as it wrote it. Throws datasets::InputError if the
/// source does not compile, and if the compiler takes longer than five minutes.
Compilation compile(const std::filesystem::path& source, FileKind kind,
                    const std::filesystem::path& scratch);

} // namespace clusterbench

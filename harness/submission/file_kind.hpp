// What a file from outside is, by its name and its first bytes. Nothing of it is loaded or started.
#pragma once

#include <filesystem>

namespace clusterbench {

enum class FileKind {
  cpp,    ///< source of a module in C++
  cuda,   ///< source of a module in CUDA C++
  module, ///< a shared object
  program ///< speaks the protocol: a Python file, or anything that can be started
};

/// Throws datasets::InputError for a file that is none of these, that is not there, that is built
/// for another processor, or a module whose C++ library is not ours.
FileKind kind_of(const std::filesystem::path& file);

const char* to_string(FileKind kind);

} // namespace clusterbench

// Generated text within pages written by hand.
#pragma once

#include <filesystem>
#include <string>

namespace clusterbench {

/// Replaces what stands between `<!-- NAME begin -->` and `<!-- NAME end -->` in a file.
/// Throws datasets::InputError if the file or the markers are not there, datasets::OutputError if
/// it cannot be written; then it stays as it was.
void splice(const std::filesystem::path& file, const std::string& name, const std::string& text);

} // namespace clusterbench

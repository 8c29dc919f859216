// Keeps a folder from a process that must not look into it.
#pragma once

#include <filesystem>

namespace clusterbench {

/// From now on this thread, and whatever it starts, can neither read files of `folder` nor put any
/// there, and cannot look into the memory of processes outside, its parent's say. The folder need
/// not exist yet. Returns false, with nothing changed, where the kernel has no Landlock (Linux
/// before 5.13, or switched off).
///
/// Landlock knows only what is allowed, so everything beside the folder and beside the folders that
/// lead to it is. A side effect: files that appear later in one of those that lead to it, directly,
/// cannot be read or written either.
bool hide_folder(const std::filesystem::path& folder);

} // namespace clusterbench

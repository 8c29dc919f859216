// Small files of the harness: read whole, written whole or not at all.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

namespace clusterbench {

/// Writes `text` under a temporary name and renames it. Throws datasets::OutputError.
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// For a start, before hours of work. Throws datasets::OutputError where write_text_file() could
/// not write, and datasets::InputError where a file is there already that does not begin as what
/// will take its place: it is somebody's data, say. A pipe that nobody reads cannot be written
/// either; one with a reader is kept open to the end of the program, since its reader would take a
/// trial's closing for the end. What else is no regular file, a device say, is left alone.
/// option: that names the path, for the message.
void check_can_write(std::string_view option, const std::filesystem::path& path,
                     std::string_view beginning);

/// Opens a file that is read to its end. Throws datasets::InputError where it is missing, cannot be
/// read, or is no regular file: a pipe or a device may never end. A file that says that it has no
/// bytes is taken at its word: some of the kernel's own have no end.
std::ifstream open_input(const std::filesystem::path& path);

/// Parses a JSON file. Throws datasets::InputError naming the file and the position.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// Creates a folder and its parents. Throws datasets::OutputError.
void make_output_folder(const std::filesystem::path& path);

} // namespace clusterbench

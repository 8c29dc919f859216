// Small files of the harness: read whole, written whole or not at all.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace clusterbench {

/// Writes `text` under a temporary name and renames it. Throws datasets::OutputError.
void write_text_file(const std::filesystem::path& path, std::string_view text);

/// Throws datasets::OutputError where write_text_file() could not: for a start, before hours of
/// work. What is no regular file, a pipe say, is left alone.
void check_can_write(const std::filesystem::path& path);

/// Parses a JSON file. Throws datasets::InputError naming the file and the position.
nlohmann::json read_json_file(const std::filesystem::path& path);

/// Creates a folder and its parents. Throws datasets::OutputError.
void make_output_folder(const std::filesystem::path& path);

} // namespace clusterbench

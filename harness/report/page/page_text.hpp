// The page itself: the built template with the data in it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace clusterbench {

/// The template that the build left beside the program. Throws datasets::InputError with the
/// command that makes it if it is not there.
std::string read_page_template(const std::filesystem::path& program_folder);

/// What every page begins with, of whatever version: all that stands before its policy.
std::string_view page_beginning(std::string_view page_template);

/// The template with the data in place of its mark. Whatever texts the data hold, they end no
/// script and start no element: every `<` is written as an escape of JSON.
std::string page_text(std::string page_template, const nlohmann::json& data);

} // namespace clusterbench

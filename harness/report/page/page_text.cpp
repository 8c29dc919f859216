#include "harness/report/page/page_text.hpp"

#include "datasets/errors.hpp"

#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace clusterbench {
namespace {

// What stands in the template where the data go; page/src/page.html has it once.
constexpr std::string_view kMark = "\"the data\"";

std::string without_tags(const std::string& text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char letter : text) {
    if (letter == '<') {
      safe += "\\u003c";
    } else {
      safe += letter;
    }
  }
  return safe;
}

} // namespace

std::string read_page_template(const std::filesystem::path& program_folder) {
  const std::filesystem::path path = program_folder / "page" / "template.html";
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    throw datasets::InputError(fmt::format(
        "report: {} is missing or empty. It is made with the program where npm is installed; "
        "`apt-get install npm` and `scripts/bundle_page.sh {}` make it now",
        path.string(), program_folder.string()));
  }
  return text.str();
}

std::string_view page_beginning(std::string_view page_template) {
  return page_template.substr(0, page_template.find("content="));
}

std::string page_text(std::string page_template, const nlohmann::json& data) {
  const std::size_t mark = page_template.find(kMark);
  if (mark == std::string::npos) {
    throw std::runtime_error("report: the page's template has no place for the data");
  }
  page_template.replace(
      mark, kMark.size(),
      without_tags(data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return page_template;
}

} // namespace clusterbench

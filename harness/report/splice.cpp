#include "harness/report/splice.hpp"

#include "datasets/errors.hpp"
#include "harness/system/files.hpp"

#include <fmt/format.h>
#include <sstream>

namespace clusterbench {

void splice(const std::filesystem::path& file, const std::string& name, const std::string& text) {
  std::ostringstream buffer;
  buffer << open_input(file).rdbuf();
  std::string content = buffer.str();
  const std::string begin = fmt::format("<!-- {} begin -->\n", name);
  const std::string end = fmt::format("<!-- {} end -->", name);
  const auto from = content.find(begin);
  const auto to = content.find(end);
  if (from == std::string::npos || to == std::string::npos || to < from) {
    throw datasets::InputError(fmt::format("{}: the markers {} ... {} are missing", file.string(),
                                           begin.substr(0, begin.size() - 1), end));
  }
  const auto start = from + begin.size();
  content.replace(start, to - start, text);
  write_text_file(file, content);
}

} // namespace clusterbench

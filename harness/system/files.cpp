#include "harness/system/files.hpp"

#include "datasets/errors.hpp"
#include "datasets/output_file.hpp"
#include "harness/system/json_words.hpp"
#include "harness/system/nesting.hpp"

#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

namespace clusterbench {

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  datasets::OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void check_can_write(std::string_view option, const std::filesystem::path& path,
                     std::string_view beginning) {
  std::error_code ignored; // what cannot be looked at fails below
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_regular_file(status) && std::filesystem::file_size(path, ignored) > 0) {
    std::string there(beginning.size(), '\0');
    std::ifstream(path, std::ios::binary).read(there.data(), std::ssize(there));
    if (there != beginning) {
      throw datasets::InputError(
          fmt::format("{} {}: another kind of file is there already, and is not replaced", option,
                      path.string()));
    }
  }
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
      std::filesystem::is_directory(status)) {
    const datasets::OutputFile trial(path); // leaves nothing behind
  } else if (std::filesystem::is_fifo(status)) {
    static std::vector<std::unique_ptr<datasets::OutputFile>> kept;
    kept.push_back(std::make_unique<datasets::OutputFile>(path));
  }
}

namespace {

// "line 3: 1e999 is too large a number" of what no register holds, which the library names as it
// stands.
std::string too_large(const std::filesystem::path& path, const nlohmann::json::exception& error) {
  const std::string words = words_of(error);
  const std::size_t begin = words.find('\''), end = words.rfind('\'');
  if (begin == std::string::npos || end <= begin + 1) {
    return words;
  }
  const std::string number = words.substr(begin + 1, end - begin - 1);
  std::ifstream stream(path);
  std::size_t count = 1;
  for (std::string line; std::getline(stream, line); ++count) {
    if (line.find(number) != std::string::npos) {
      return fmt::format("line {}: {} is too large a number", count, number);
    }
  }
  return fmt::format("{} is too large a number", number);
}

} // namespace

std::ifstream open_input(const std::filesystem::path& path) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw datasets::InputError(fmt::format("{}: not a regular file", path.string()));
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw datasets::InputError(fmt::format("{}: cannot be read", path.string()));
  }
  return std::filesystem::file_size(path, none) == 0 ? std::ifstream("/dev/null")
                                                     : std::move(stream);
}

nlohmann::json read_json_file(const std::filesystem::path& path) {
  std::ifstream stream = open_input(path);
  try {
    nlohmann::json json = nlohmann::json::parse(stream);
    if (nests_too_deeply(json)) {
      throw datasets::InputError(
          fmt::format("{}: it is nested more than {} deep", path.string(), kDeepest));
    }
    return json;
  } catch (const nlohmann::json::parse_error& error) {
    throw datasets::InputError(fmt::format("{}: {}", path.string(), words_of(error)));
  } catch (const nlohmann::json::out_of_range& error) {
    throw datasets::InputError(fmt::format("{}: {}", path.string(), too_large(path, error)));
  } catch (const std::ios_base::failure&) { // a disk's error, say
    throw datasets::InputError(fmt::format("{}: cannot be read", path.string()));
  }
}

void make_output_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path)) {
    throw datasets::OutputError(
        fmt::format("{}: cannot create the folder: {}", path.string(), error.message()));
  }
}

} // namespace clusterbench

#include "harness/campaign/answer_files.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fstream>
#include <system_error>
#include <utility>

namespace clusterbench {
namespace {

// Names of tables and problems are free text. Different ones stay different, and none leads out of
// the folder.
std::string as_file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(code) != 0 ||
                       std::string_view("_-=+,:").find(c) != std::string_view::npos ||
                       (c == '.' && !name.empty());
    name += plain ? std::string(1, c) : fmt::format("%{:02X}", code);
  }
  return name.empty() ? "%" : name;
}

} // namespace

AnswerFiles::AnswerFiles(std::filesystem::path folder, const std::vector<CellSpec>& cells,
                         int rounds)
    : folder_(std::move(folder)), several_rounds_(rounds > 1) {
  for (const CellSpec& cell : cells) {
    several_problems_ |=
        cell.table != cells.front().table || cell.problem_id != cells.front().problem_id;
    several_precisions_ |= cell.precision != cells.front().precision;
  }
}

std::filesystem::path AnswerFiles::stem(const CellSpec& cell, int round) const {
  std::filesystem::path path = folder_;
  if (several_problems_) {
    path = path / as_file_name(cell.table) / as_file_name(cell.problem_id);
  }
  std::string name = as_file_name(cell.variant);
  if (several_precisions_) {
    name += fmt::format(".{}", to_string(cell.precision));
  }
  if (several_rounds_) {
    name += fmt::format(".round{}", round);
  }
  return path / name;
}

nlohmann::json AnswerFiles::sizes(const std::filesystem::path& stem) {
  auto sizes = nlohmann::json::object();
  for (const char* suffix : {"labels.npy", "centroids.npy", "memberships.npy"}) {
    std::error_code none; // fcm alone has memberships
    const auto bytes =
        std::filesystem::file_size(fmt::format("{}.{}", stem.string(), suffix), none);
    if (!none) {
      sizes[suffix] = bytes;
    }
  }
  return sizes;
}

bool AnswerFiles::holds(const std::filesystem::path& stem, std::string_view key) {
  std::ifstream stream(stem.string() + ".trace.json");
  const auto trace = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  return trace.is_object() && trace.value("key", nlohmann::json()) == key &&
         trace.value("bytes", nlohmann::json()) == sizes(stem);
}

} // namespace clusterbench

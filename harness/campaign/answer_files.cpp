#include "harness/campaign/answer_files.hpp"

#include "datasets/errors.hpp"
#include "datasets/npy.hpp"
#include "harness/system/files.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <optional>
#include <sys/stat.h>
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

constexpr std::array kSuffixes = {"labels.npy", "centroids.npy", "memberships.npy", "trace.json"};

using FileIdentity = std::pair<dev_t, ino_t>;

// Empty where there is none: data may have the name of a generator.
std::optional<FileIdentity> identity_of(const std::string& file) {
  struct stat status = {};
  return stat(file.c_str(), &status) == 0
             ? std::optional<FileIdentity>({status.st_dev, status.st_ino})
             : std::nullopt;
}

} // namespace

AnswerFiles::AnswerFiles(std::filesystem::path folder, const std::vector<CellSpec>& cells,
                         int rounds)
    : folder_(std::move(folder)), rounds_(rounds) {
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
  if (rounds_ > 1) {
    name += fmt::format(".round{}", round);
  }
  return path / name;
}

void AnswerFiles::spare_inputs(const std::vector<CellSpec>& cells) const {
  std::map<FileIdentity, std::string> inputs; // what is said of each
  const auto add = [&](const std::string& option, const std::string& file) {
    if (const auto identity = identity_of(file)) {
      inputs.try_emplace(*identity, option + file);
    }
  };
  for (const CellSpec& cell : wanted() ? cells : std::vector<CellSpec>()) {
    add("--data ", cell.problem.data);
    add("--data ", cell.problem.data.substr(0, cell.problem.data.find('#'))); // a table of a file
    add("--weights ", cell.problem.weights);
    add("--init file:", cell.problem.init.file);
  }
  if (inputs.empty()) {
    return;
  }
  for (const CellSpec& cell : cells) {
    for (int round = 1; round <= rounds_; ++round) {
      for (const char* suffix : kSuffixes) {
        const std::string file = fmt::format("{}.{}", stem(cell, round).string(), suffix);
        const auto identity = identity_of(file);
        const auto input = identity ? inputs.find(*identity) : inputs.end();
        if (input != inputs.end()) {
          throw datasets::InputError(
              fmt::format("--save {}: an answer would replace {}, which is the file of {}",
                          folder_.string(), file, input->second));
        }
      }
    }
  }
}

template <typename T>
void AnswerFiles::write(const std::filesystem::path& stem, const std::string& key, std::size_t d,
                        const TakenAnswer<T>& answer, const nlohmann::json& row) {
  const std::size_t n = answer.labels.size();
  const std::size_t k = answer.centroids.size() / d;
  const auto path = [&](const char* suffix) {
    return std::filesystem::path(stem.string() + suffix);
  };
  make_output_folder(stem.parent_path());
  // Until everything is written, the files there may be of two answers, which no trace vouches for.
  std::error_code none_there;
  std::filesystem::remove(path(".trace.json"), none_there);
  datasets::write_npy<std::int32_t>(path(".labels.npy"), answer.labels, {n});
  datasets::write_npy<T>(path(".centroids.npy"), answer.centroids, {k, d});
  if (!answer.memberships.empty()) {
    datasets::write_npy<T>(path(".memberships.npy"), answer.memberships, {n, k});
  }
  nlohmann::json trace = row.value("trace", nlohmann::json::object());
  trace["key"] = key;
  trace["bytes"] = sizes(stem);
  trace["iterations"] = answer.iterations;
  if (const nlohmann::json printed = row.value("printed_loss", nlohmann::json::array());
      !printed.empty()) {
    trace["printed_loss"] = printed;
  }
  write_text_file(path(".trace.json"), trace.dump(2) + "\n");
}

template void AnswerFiles::write(const std::filesystem::path&, const std::string&, std::size_t,
                                 const TakenAnswer<float>&, const nlohmann::json&);
template void AnswerFiles::write(const std::filesystem::path&, const std::string&, std::size_t,
                                 const TakenAnswer<double>&, const nlohmann::json&);

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

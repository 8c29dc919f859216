#include "harness/run/ledger.hpp"

#include "datasets/errors.hpp"
#include "harness/run/files.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <sys/file.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using datasets::OutputError;

// Length of the part of a file that consists of whole lines.
off_t whole_lines(int descriptor) {
  off_t end = lseek(descriptor, 0, SEEK_END);
  char last = 0;
  while (end > 0 && (pread(descriptor, &last, 1, end - 1) != 1 || last != '\n')) {
    --end;
  }
  return end;
}

struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What every reader relies on. May throw nlohmann::json::exception as well.
void check_line(const nlohmann::json& line) {
  if (!line.is_object()) {
    throw Damage("is not JSON");
  }
  const int schema = line.value("schema", 0);
  if (schema > kLedgerSchema) {
    throw Damage(fmt::format("has schema {}, this program knows up to {}", schema, kLedgerSchema));
  }
  const std::string type = line.value("type", "");
  if (type != "header" && type != "cell") {
    throw Damage("is neither a header nor a cell");
  }
  // There is no median of no samples.
  if (line.contains("samples_ms") && line.at("samples_ms").get<std::vector<double>>().empty()) {
    throw Damage("has samples_ms without a sample");
  }
}

} // namespace

Ledger::Ledger(const std::filesystem::path& folder) : path_(folder / "ledger.jsonl") {
  make_output_folder(folder);
  const auto lock = folder / "lock";
  lock_descriptor_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_descriptor_ < 0) {
    throw OutputError(fmt::format("{}: {}", lock.string(), std::strerror(errno)));
  }
  if (flock(lock_descriptor_, LOCK_EX | LOCK_NB) != 0) {
    close(lock_descriptor_);
    throw OutputError(
        fmt::format("{}: another campaign is writing to this folder", folder.string()));
  }
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0 || ftruncate(descriptor_, whole_lines(descriptor_)) != 0) {
    const int error = errno;
    close(lock_descriptor_);
    throw OutputError(fmt::format("{}: {}", path_.string(), std::strerror(error)));
  }
}

Ledger::~Ledger() {
  close(descriptor_);
  close(lock_descriptor_);
}

void Ledger::append(const nlohmann::json& line) {
  // Invalid UTF-8, from a child's garbage output say, must not cost the row.
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const off_t before = lseek(descriptor_, 0, SEEK_END);
  const ssize_t written = write(descriptor_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || fdatasync(descriptor_) != 0) {
    const int error = written < 0 ? errno : ENOSPC;
    const bool cut = ftruncate(descriptor_, before) == 0;
    throw OutputError(fmt::format("{}: {}{}", path_.string(), std::strerror(error),
                                  cut ? "" : "; its last line is torn"));
  }
}

void for_each_line(const std::filesystem::path& path,
                   const std::function<void(nlohmann::json&)>& use) {
  const auto file = std::filesystem::is_directory(path) ? path / "ledger.jsonl" : path;
  std::ifstream stream(file);
  if (!stream) {
    throw InputError(fmt::format("{}: cannot be read", file.string()));
  }
  std::size_t number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) {
      continue; // an editor's, say
    }
    auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_discarded() && stream.eof()) {
      return; // torn: its writer was killed
    }
    try {
      check_line(line);
      use(line);
    } catch (const nlohmann::json::exception& error) {
      throw InputError(fmt::format("{}: line {}: {}", file.string(), number, error.what()));
    } catch (const Damage& damage) {
      throw InputError(fmt::format("{}: line {} {}", file.string(), number, damage.what()));
    }
  }
  if (stream.bad()) { // a folder, say
    throw InputError(fmt::format("{}: cannot be read", file.string()));
  }
}

std::vector<nlohmann::json> read_ledger(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  for_each_line(path, [&](nlohmann::json& line) { lines.push_back(std::move(line)); });
  return lines;
}

} // namespace clusterbench

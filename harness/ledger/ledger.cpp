#include "harness/ledger/ledger.hpp"

#include "datasets/errors.hpp"
#include "harness/ledger/chain.hpp"
#include "harness/ledger/line_reader.hpp"
#include "harness/system/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using datasets::OutputError;
using nlohmann::json;

// Length of the part of a file that consists of whole lines.
off_t whole_lines(int descriptor) {
  off_t end = lseek(descriptor, 0, SEEK_END);
  char last = 0;
  while (end > 0 && (pread(descriptor, &last, 1, end - 1) != 1 || last != '\n')) {
    --end;
  }
  return end;
}

// The last line of a file of whole lines, without its end.
std::string last_line(int descriptor, off_t end) {
  std::string line;
  char c = 0;
  for (off_t at = end - 2; at >= 0 && pread(descriptor, &c, 1, at) == 1 && c != '\n'; --at) {
    line += c;
  }
  return {line.rbegin(), line.rend()};
}

// What its last line says; a line that is damaged or edited begins another chain, and readers tell.
std::string last_chain(int descriptor) {
  try {
    const std::string line = last_line(descriptor, lseek(descriptor, 0, SEEK_END));
    return line.empty() ? std::string() : take_apart(line).chain;
  } catch (const json::exception&) {
    return {};
  }
}

} // namespace

std::filesystem::path ledger_file(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? path / "ledger.jsonl" : path;
}

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
  chain_ = last_chain(descriptor_);
}

Ledger::~Ledger() {
  close(descriptor_);
  close(lock_descriptor_);
}

void Ledger::append(const json& line) {
  // Invalid UTF-8, from a child's garbage output say, must not cost the row.
  const std::string body = line.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string chain = chain_after(chain_, body);
  const std::string text = with_chain(body, chain) + "\n";
  const off_t before = lseek(descriptor_, 0, SEEK_END);
  ssize_t got = 0;
  for (std::size_t written = 0; got >= 0 && written < text.size();) {
    // After a short one the next write says why.
    got = write(descriptor_, text.data() + written, text.size() - written);
    written += got > 0 ? static_cast<std::size_t>(got) : 0;
    got = got < 0 && errno == EINTR ? 0 : got;
  }
  if (got < 0 || fdatasync(descriptor_) != 0) {
    const int error = errno;
    const bool cut = ftruncate(descriptor_, before) == 0;
    throw OutputError(fmt::format("{}: {}{}", path_.string(), std::strerror(error),
                                  cut ? "" : "; its last line is torn"));
  }
  chain_ = chain;
}

LedgerContent read_ledger(const std::filesystem::path& path) {
  const auto file = ledger_file(path);
  std::ifstream stream = open_input(file);
  LineReader reader(file.string(), path.string());
  std::size_t number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    try {
      reader.take(text, number);
    } catch (const Damage& damage) {
      if (stream.eof() && damage.kind == Damage::Kind::no_json) {
        break; // torn: its writer was killed
      }
      std::string message = fmt::format("{}: line {} {}", file.string(), number, damage.what());
      if (damage.kind != Damage::Kind::other_schema) {
        message += fmt::format("; `clusterbench ledger check {}` lists all damage", path.string());
      }
      throw InputError(message);
    }
  }
  if (stream.bad()) { // a disk's error, say
    throw InputError(fmt::format("{}: cannot be read", file.string()));
  }
  return std::move(reader).content();
}

std::vector<std::string> ledgers_below(const std::vector<std::string>& paths) {
  std::vector<std::string> ledgers;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      ledgers.push_back(path);
      continue;
    }
    std::vector<std::string> below;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("ledger") && name.ends_with(".jsonl")) {
        below.push_back(entry.path());
      }
    }
    if (below.empty()) {
      throw InputError(fmt::format("{}: holds no ledger.jsonl", path));
    }
    std::ranges::sort(below);
    std::ranges::move(below, std::back_inserter(ledgers));
  }
  return ledgers;
}

} // namespace clusterbench

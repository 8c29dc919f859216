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
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using datasets::OutputError;
using nlohmann::json;

// The bytes of a file in front of `end` that are read at once: a torn line may be long.
constexpr off_t kBlock = off_t{1} << 16;

// The block that ends there. What cannot be read is no torn line, and must not be cut off: throws.
std::string block_before(int descriptor, off_t end, const std::filesystem::path& file) {
  std::string block(static_cast<std::size_t>(std::min(end, kBlock)), '\0');
  const off_t begin = end - static_cast<off_t>(block.size());
  for (std::size_t at = 0; at < block.size();) {
    const ssize_t got =
        pread(descriptor, block.data() + at, block.size() - at, begin + static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw OutputError(fmt::format("{}: cannot be read: {}", file.string(),
                                    got < 0 ? std::strerror(errno) : "it has become shorter"));
    }
    at += static_cast<std::size_t>(got);
  }
  return block;
}

// Length of the part of a file that consists of whole lines.
off_t whole_lines(int descriptor, const std::filesystem::path& file) {
  off_t end = lseek(descriptor, 0, SEEK_END);
  while (end > 0) {
    const std::string block = block_before(descriptor, end, file);
    const std::size_t newline = block.rfind('\n');
    if (newline != std::string::npos) {
      return end - static_cast<off_t>(block.size() - newline - 1);
    }
    end -= static_cast<off_t>(block.size());
  }
  return 0;
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r") == std::string::npos;
}

// The last line of a file of whole lines that is not blank, without its end: readers skip those.
std::string last_line(int descriptor, off_t end, const std::filesystem::path& file) {
  std::vector<std::string> pieces; // of the line, the last one first
  const auto line = [&] {
    std::string text;
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      text += *piece;
    }
    return text;
  };
  const auto all_blank = [&] { return std::ranges::all_of(pieces, is_blank); };
  while (end > 0) {
    std::string block = block_before(descriptor, end, file);
    end -= static_cast<off_t>(block.size());
    for (std::size_t newline = block.rfind('\n'); newline != std::string::npos;
         newline = block.rfind('\n')) {
      pieces.push_back(block.substr(newline + 1));
      if (!all_blank()) {
        return line();
      }
      pieces.clear();
      block.resize(newline);
    }
    pieces.push_back(std::move(block));
  }
  return line();
}

// What its last line says; a line that is damaged or edited begins another chain, and readers tell.
std::string last_chain(int descriptor, off_t end, const std::filesystem::path& file) {
  try {
    const std::string line = last_line(descriptor, end, file);
    return is_blank(line) ? std::string() : take_apart(line).chain;
  } catch (const json::exception&) {
    return {};
  }
}

// Opens a file that no other campaign writes to; makes it if need be.
int open_alone(const std::filesystem::path& file, int flags, const std::filesystem::path& folder) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | flags, 0666);
  struct stat what = {};
  if (descriptor >= 0 && fstat(descriptor, &what) == 0 && !S_ISREG(what.st_mode)) {
    close(descriptor);
    throw OutputError(fmt::format("{}: not a regular file", file.string()));
  }
  if (descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    return descriptor;
  }
  const int error = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  throw OutputError(
      descriptor >= 0 && error == EWOULDBLOCK
          ? fmt::format("{}: another campaign is writing to this folder", folder.string())
          : fmt::format("{}: {}", file.string(), std::strerror(error)));
}

} // namespace

std::filesystem::path ledger_file(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) ? path / "ledger.jsonl" : path;
}

Ledger::Ledger(const std::filesystem::path& folder) : path_(folder / "ledger.jsonl") {
  make_output_folder(folder);
  lock_descriptor_ = open_alone(folder / "lock", 0, folder);
  try {
    // Itself, too: somebody may remove the lock, and a link of another folder lead to it.
    descriptor_ = open_alone(path_, O_APPEND, folder);
    size_ = whole_lines(descriptor_, path_);
    if (ftruncate(descriptor_, size_) != 0) {
      throw OutputError(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
    }
    chain_ = last_chain(descriptor_, size_, path_);
  } catch (const OutputError&) {
    close_all();
    throw;
  }
}

Ledger::~Ledger() {
  close_all();
}

void Ledger::close_all() const {
  for (const int descriptor : {descriptor_, lock_descriptor_}) {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
}

void Ledger::check_undisturbed() const {
  struct stat ours = {};
  struct stat named = {};
  if (fstat(descriptor_, &ours) != 0 || stat(path_.c_str(), &named) != 0 ||
      ours.st_dev != named.st_dev || ours.st_ino != named.st_ino || ours.st_size != size_) {
    throw OutputError(
        fmt::format("{}: it was replaced, removed or cut by another program during the run; the "
                    "rows so far may be lost with it",
                    path_.string()));
  }
}

void Ledger::append(const json& line) {
  const auto type = line.find("type");
  const std::string body = type != line.end() && *type == "cell"
                               ? text_of_cell(line)
                               : line.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string chain = chain_after(chain_, body);
  const std::string text = with_chain(body, chain) + "\n";
  check_undisturbed();
  ssize_t got = 0;
  for (std::size_t written = 0; got >= 0 && written < text.size();) {
    // After a short one the next write says why.
    got = write(descriptor_, text.data() + written, text.size() - written);
    written += got > 0 ? static_cast<std::size_t>(got) : 0;
    got = got < 0 && errno == EINTR ? 0 : got;
  }
  if (got < 0 || fdatasync(descriptor_) != 0) {
    const int error = errno;
    const bool cut = ftruncate(descriptor_, size_) == 0;
    throw OutputError(fmt::format("{}: {}{}", path_.string(), std::strerror(error),
                                  cut ? "" : "; its last line is torn"));
  }
  chain_ = chain;
  size_ += static_cast<off_t>(text.size());
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

namespace {

// Files below a folder that are called as a ledger is.
std::vector<std::string> files_below(const std::filesystem::path& folder) {
  std::vector<std::string> below;
  std::error_code error;
  std::filesystem::path at = folder; // which is read next, if it is a folder
  std::filesystem::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::end(entry); entry.increment(error)) {
    at = entry->path();
    const std::string name = at.filename();
    std::error_code ignored; // whoever reads it tells
    if (name.starts_with("ledger") && name.ends_with(".jsonl") && !entry->is_directory(ignored)) {
      below.push_back(at);
    }
  }
  if (error) {
    throw InputError(fmt::format("{}: cannot be read: {}", at.string(), error.message()));
  }
  std::ranges::sort(below);
  return below;
}

} // namespace

std::vector<std::string> ledgers_below(const std::vector<std::string>& paths) {
  std::vector<std::string> ledgers;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      ledgers.push_back(path);
      continue;
    }
    std::vector<std::string> below = files_below(path);
    if (below.empty()) {
      throw InputError(fmt::format("{}: holds no ledger.jsonl", path));
    }
    std::ranges::move(below, std::back_inserter(ledgers));
  }
  return ledgers;
}

std::vector<std::string> ledgers_of(const std::vector<std::string>& paths) {
  std::vector<std::string> ledgers;
  for (const std::string& path : paths) {
    const bool is_campaign =
        !std::filesystem::is_directory(path) || std::filesystem::exists(ledger_file(path));
    std::ranges::move(is_campaign ? std::vector{path} : ledgers_below({path}),
                      std::back_inserter(ledgers));
  }
  return ledgers;
}

} // namespace clusterbench

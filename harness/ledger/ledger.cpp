#include "harness/ledger/ledger.hpp"

#include "datasets/errors.hpp"
#include "harness/ledger/chain.hpp"
#include "harness/ledger/json_text.hpp"
#include "harness/system/files.hpp"

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

struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check_schema(int schema) {
  if (schema > kLedgerSchema) {
    throw Damage(fmt::format("has schema {}, this program knows up to {}", schema, kLedgerSchema));
  }
  if (schema < kLedgerSchema) {
    throw Damage(fmt::format("has schema {}, this program reads schema {} alone: its times are of "
                             "another kind and have to be measured again",
                             schema, kLedgerSchema));
  }
}

// Reads the lines of one ledger one by one.
class Reader {
public:
  Reader(std::string file, std::string ledger)
      : file_(std::move(file)), ledger_(std::move(ledger)) {}

  // False for a line that is no JSON.
  bool take(const std::string& text, std::size_t number) {
    ChainedLine line;
    try {
      line = take_apart(text);
      check_chain(line, number);
    } catch (const json::exception&) {
      return false;
    }
    chain_ = line.chain;
    read(std::move(line.body), number);
    return true;
  }

  LedgerContent content;

private:
  // Whoever writes a line in another form, with spaces say, changes nothing of it.
  void check_chain(ChainedLine& line, std::size_t number) {
    if (chain_after(chain_, line.body) == line.chain) {
      return;
    }
    line.body = json::parse(line.body).dump(-1, ' ', false, json::error_handler_t::replace);
    if (chain_after(chain_, line.body) != line.chain) {
      note_edited(number, "is not as it was written");
    }
  }

  void note_edited(std::size_t number, const char* what) {
    if (content.edited.empty()) {
      content.edited = fmt::format("{}: edited: line {} {}", file_, number, what);
    }
  }

  void read(std::string body, std::size_t number) {
    int schema = 0;
    std::string type;
    for (const auto& [key, value] : json_text::members(body)) {
      if (key == "schema") {
        schema = static_cast<int>(json_text::count(value));
      } else if (key == "type") {
        type = json_text::string(value);
      }
    }
    if (type != "header" && type != "cell") {
      throw Damage("is neither a header nor a cell");
    }
    check_schema(schema);
    if (type == "header") {
      content.headers.push_back(std::make_shared<const Header>(json::parse(body), ledger_));
      if (!content.headers.back()->intact()) {
        note_edited(number, "has another environment than its hash says");
      }
      return;
    }
    if (content.headers.empty()) {
      throw Damage("is a cell before any header");
    }
    content.rows.emplace_back(std::move(body), content.headers.back());
  }

  std::string file_, ledger_;
  std::string chain_;
};

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
  const ssize_t written = write(descriptor_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || fdatasync(descriptor_) != 0) {
    const int error = written < 0 ? errno : ENOSPC;
    const bool cut = ftruncate(descriptor_, before) == 0;
    throw OutputError(fmt::format("{}: {}{}", path_.string(), std::strerror(error),
                                  cut ? "" : "; its last line is torn"));
  }
  chain_ = chain;
}

LedgerContent read_ledger(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "ledger.jsonl" : path;
  std::ifstream stream(file);
  if (!stream) {
    throw InputError(fmt::format("{}: cannot be read", file.string()));
  }
  Reader reader(file.string(), path.string());
  std::size_t number = 0;
  for (std::string text; std::getline(stream, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) {
      continue; // an editor's, say
    }
    const auto damaged = [&](const char* what) {
      return InputError(fmt::format("{}: line {} {}", file.string(), number, what));
    };
    try {
      if (!reader.take(text, number)) {
        if (stream.eof()) {
          break; // torn: its writer was killed
        }
        throw Damage("is not JSON");
      }
    } catch (const json::exception& error) {
      throw damaged(error.what());
    } catch (const json_text::Malformed& error) {
      throw damaged(error.what());
    } catch (const Damage& error) {
      throw damaged(error.what());
    }
  }
  if (stream.bad()) { // a folder, say
    throw InputError(fmt::format("{}: cannot be read", file.string()));
  }
  return std::move(reader.content);
}

} // namespace clusterbench

#include "harness/ledger/repair.hpp"

#include "datasets/errors.hpp"
#include "datasets/output_file.hpp"
#include "datasets/sha256.hpp"
#include "harness/ledger/chain.hpp"
#include "harness/ledger/line_reader.hpp"
#include "harness/system/files.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <iterator>
#include <span>
#include <system_error>

namespace clusterbench {
namespace {

namespace fs = std::filesystem;
using datasets::InputError;
using datasets::OutputError;
using nlohmann::json;

// Whether a damaged line is certainly no header. If it may be one, the cells behind it have none:
// those before it may be another machine's.
bool is_surely_a_cell(const std::string& text) {
  const auto says = [&](const char* piece) { return text.find(piece) != std::string::npos; };
  const bool of_headers = says("\"header\"") || says("\"provenance\"") || says("\"starts_seed\"") ||
                          says("\"environment_hash\"") || says("\"command_line\"");
  const bool of_cells = says("\"cell\"") || says("\"status\"") || says("\"variant\"") ||
                        says("\"samples_ms\"") || says("\"device\"");
  return of_cells && !of_headers;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The line at the end of a repaired ledger (results/schema.json).
std::string repair_line(const LedgerScan& scan) {
  json left_out = json::array();
  for (const DamagedLine& line : scan.damaged) {
    left_out.push_back({{"line", line.number},
                        {"why", line.why},
                        {"sha256", datasets::sha256_hex(bytes_of(line.text))},
                        {"next_chain", line.next_chain}});
  }
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  const json line = {{"type", "repair"},
                     {"schema", kLedgerSchema},
                     {"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
                     {"left_out", left_out}};
  const std::string body = line.dump(-1, ' ', false, json::error_handler_t::replace);
  return with_chain(body, chain_after(scan.last_chain, body));
}

void refuse_existing(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored))) {
    throw OutputError(
        fmt::format("{}: it is there already, and nothing is overwritten", path.string()));
  }
}

} // namespace

LedgerScan scan_ledger(const fs::path& path) {
  const fs::path file = ledger_file(path);
  std::ifstream stream = open_input(file);
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(stream), {});
  } catch (const std::ios_base::failure&) { // a disk's error, say
    throw InputError(fmt::format("{}: cannot be read", file.string()));
  }
  return scan_ledger_text(text, file.string(), path.string());
}

LedgerScan scan_ledger_text(const std::string& text, const std::string& file,
                            const std::string& ledger) {
  LedgerScan scan;
  scan.file = file;
  LineReader reader(file, ledger);
  std::size_t gap = 0; // the first damaged line whose successor is not known yet
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    try {
      reader.take(line, number);
      if (const std::string chain = reader.last_chain(); !chain.empty()) {
        for (; gap < scan.damaged.size(); ++gap) {
          scan.damaged[gap].next_chain = chain;
        }
        scan.last_chain = chain;
      }
      scan.sound.push_back(std::move(line));
    } catch (const Damage& damage) {
      const bool is_torn = end == text.size() && damage.kind == Damage::Kind::no_json;
      if (damage.kind != Damage::Kind::no_header && !is_surely_a_cell(line)) {
        reader.forget_header();
      }
      reader.skip();
      scan.damaged.push_back({number, std::move(line),
                              is_torn ? "is torn: its writer was killed" : damage.what(), ""});
    }
  }
  scan.content = std::move(reader).content();
  return scan;
}

std::string repaired_text(const LedgerScan& scan) {
  std::string text;
  for (const std::string& line : scan.sound) {
    text.append(line) += '\n';
  }
  return text + repair_line(scan) + '\n';
}

void write_repaired(const LedgerScan& scan, const fs::path& out) {
  if (scan.content.rows.empty()) {
    throw InputError(fmt::format("{}: no row of it is sound, so nothing is written", scan.file));
  }
  fs::path aside = out;
  aside += ".damaged";
  refuse_existing(out);
  refuse_existing(aside);
  if (out.has_parent_path()) {
    make_output_folder(out.parent_path());
  }
  datasets::OutputFile damaged(aside);
  for (const DamagedLine& line : scan.damaged) {
    damaged.write(bytes_of(line.text + "\n"));
  }
  datasets::OutputFile repaired(out);
  const std::string text = repaired_text(scan);
  repaired.write(bytes_of(text));
  damaged.commit_new();
  try {
    repaired.commit_new();
  } catch (const OutputError&) {
    std::error_code ignored;
    fs::remove(aside, ignored); // half of the answer is none
    throw;
  }
}

} // namespace clusterbench

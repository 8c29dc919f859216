#include "harness/ledger/line_reader.hpp"

#include "harness/ledger/json_text.hpp"
#include "harness/system/nesting.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using nlohmann::json;

void check_schema(int schema) {
  if (schema > kLedgerSchema) {
    throw Damage(Damage::Kind::other_schema,
                 fmt::format("has schema {}, this program knows up to {}", schema, kLedgerSchema));
  }
  if (schema < kLedgerSchema) {
    throw Damage(Damage::Kind::other_schema,
                 fmt::format("has schema {}, this program reads schema {} alone: its times are of "
                             "another kind and have to be measured again",
                             schema, kLedgerSchema));
  }
}

} // namespace

void LineReader::take(const std::string& text, std::size_t number) {
  if (text.find_first_not_of(" \t\r") == std::string::npos) {
    return; // an editor's, say
  }
  if (text_nests_too_deeply(text)) {
    throw Damage(Damage::Kind::odd, fmt::format("is nested more than {} deep", kDeepest));
  }
  const std::size_t broken = broken_.size();
  const std::string edited = content_.edited;
  const auto undone = [&](Damage::Kind kind, const std::string& why) {
    broken_.resize(broken);
    content_.edited = edited;
    return Damage(kind, why);
  };
  try {
    ChainedLine line = take_apart(text);
    check_chain(line, number);
    read(line.body, number);
    chain_ = line.chain;
  } catch (const json::parse_error& error) {
    throw undone(Damage::Kind::no_json, fmt::format("is not JSON (byte {})", error.byte));
  } catch (const json::exception&) {
    throw undone(Damage::Kind::no_json, "holds a number that is too large");
  } catch (const json_text::Malformed& error) {
    throw undone(Damage::Kind::odd, error.what());
  } catch (const Damage& error) {
    throw undone(error.kind, error.what());
  }
}

LedgerContent LineReader::content() && {
  const auto unexplained = std::ranges::find_if(
      broken_, [&](const Broken& broken) { return !behind_gaps_.contains(broken.chain); });
  if (unexplained != broken_.end()) {
    note_edited(unexplained->line, "is not as it was written");
  }
  if (left_out_ > 0) {
    const std::string repaired = fmt::format("{}: repaired: {} damaged line{} left out", file_,
                                             left_out_, left_out_ == 1 ? " was" : "s were");
    content_.edited = content_.edited.empty() ? repaired : repaired + "; " + content_.edited;
  }
  return std::move(content_);
}

// Whoever writes a line in another form, with spaces say, changes nothing of it.
void LineReader::check_chain(ChainedLine& line, std::size_t number) {
  if (chain_ && chain_after(*chain_, line.body) == line.chain) {
    return;
  }
  line.body = json::parse(line.body).dump(-1, ' ', false, json::error_handler_t::replace);
  if (chain_ && chain_after(*chain_, line.body) != line.chain) {
    broken_.push_back({number, line.chain});
  }
}

void LineReader::note_edited(std::size_t number, const char* what) {
  if (content_.edited.empty()) {
    content_.edited = fmt::format("{}: edited: line {} {}", file_, number, what);
  }
}

void LineReader::read(const std::string& body, std::size_t number) {
  int schema = 0;
  std::string type;
  for (const auto& [key, value] : json_text::members(body)) {
    if (key == "schema") {
      schema = static_cast<int>(json_text::count(value));
    } else if (key == "type") {
      type = json_text::string(value);
    }
  }
  if (type != "header" && type != "cell" && type != "repair") {
    throw Damage(Damage::Kind::odd, "is neither a header nor a cell");
  }
  check_schema(schema);
  if (type == "repair") {
    read_repair(body);
  } else if (type == "header") {
    header_ = std::make_shared<const Header>(json::parse(body), ledger_);
    content_.headers.push_back(header_);
    if (!header_->intact()) {
      note_edited(number, "has another environment than its hash says");
    }
  } else if (header_ == nullptr) {
    throw Damage(Damage::Kind::no_header, content_.headers.empty()
                                              ? "is a cell before any header"
                                              : "is a cell whose header may be a damaged line");
  } else {
    content_.rows.emplace_back(body, header_);
  }
}

void LineReader::read_repair(const std::string& body) {
  for (const auto& [key, value] : json_text::members(body)) {
    if (key != "left_out") {
      continue;
    }
    for (const json_text::Member& line : json_text::members(value)) {
      ++left_out_;
      for (const auto& [name, what] : json_text::members(line.value)) {
        if (name == "next_chain") {
          behind_gaps_.insert(json_text::string(what));
        }
      }
    }
  }
}

} // namespace clusterbench

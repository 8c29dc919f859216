// Reads the lines of one ledger one by one, and says what is wrong with one.
#pragma once

#include "harness/ledger/chain.hpp"
#include "harness/ledger/ledger.hpp"

#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace clusterbench {

/// Why a line cannot be used, in words that follow "line 3".
struct Damage : std::runtime_error {
  enum class Kind { no_json, other_schema, no_header, odd };
  Damage(Kind of, const std::string& why) : std::runtime_error(why), kind(of) {}
  Kind kind;
};

class LineReader {
public:
  /// file: for messages; ledger: as the user named it.
  LineReader(std::string file, std::string ledger)
      : file_(std::move(file)), ledger_(std::move(ledger)) {}

  /// Takes the next line; blank ones are skipped. Throws Damage, and then holds what it held
  /// before.
  void take(const std::string& text, std::size_t number);

  /// Goes on behind a damaged line: the next one has nothing to be chained to.
  void skip() { chain_.reset(); }
  /// Forgets the header, whose successor may have been damaged: rows until the next have none.
  void forget_header() { header_.reset(); }

  /// Of the last line taken; empty if it had none, or was blank behind a damaged one.
  std::string last_chain() const { return chain_.value_or(""); }

  LedgerContent content() &&;

private:
  struct Broken {
    std::size_t line;
    std::string chain; // that the line states
  };

  void check_chain(ChainedLine& line, std::size_t number);
  void note_edited(std::size_t number, const char* what);
  void read(const std::string& body, std::size_t number);
  void read_repair(const std::string& body);

  std::string file_, ledger_;
  std::optional<std::string> chain_ = ""; // of the line before; none behind a damaged one
  std::shared_ptr<const Header> header_;
  LedgerContent content_;
  std::vector<Broken> broken_;
  std::set<std::string> behind_gaps_; // chains of lines before which damaged ones were left out
  std::size_t left_out_ = 0;
};

} // namespace clusterbench

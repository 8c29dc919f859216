#include "harness/ledger/json_text.hpp"

#include <array>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace clusterbench::json_text {
namespace {

[[noreturn]] void fail(std::string_view value, const char* wanted) {
  throw Malformed(fmt::format("{} is no {}", value.substr(0, 40), wanted));
}

// Some characters, found in a text faster than by find_first_of.
class Characters {
public:
  explicit constexpr Characters(std::string_view characters) {
    for (const char c : characters) {
      among_[static_cast<unsigned char>(c)] = true;
    }
  }
  constexpr bool has(char c) const { return among_[static_cast<unsigned char>(c)]; }

private:
  std::array<bool, 256> among_{};
};

constexpr Characters kSpace(" \t\n\r");
constexpr Characters kOfStrings("\"\\");
constexpr Characters kOfNesting("\"{}[]");
constexpr Characters kAfterScalars(",}] \t\n\r");

// Walks over a text; never beyond its end.
class Cursor {
public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool take(char c) {
    while (at_ < text_.size() && kSpace.has(text_[at_])) {
      ++at_;
    }
    const bool there = at_ < text_.size() && text_[at_] == c;
    at_ += there ? 1 : 0;
    return there;
  }

  void expect(char c) {
    if (!take(c)) {
      fail(text_, "JSON");
    }
  }

  std::string_view value() {
    take('\0'); // spaces
    const std::size_t begin = at_;
    int depth = 0;
    do {
      skip_token(depth);
    } while (depth > 0);
    if (at_ == begin) {
      fail(text_, "JSON");
    }
    return text_.substr(begin, at_ - begin);
  }

private:
  void skip_to(const Characters& characters) {
    while (at_ < text_.size() && !characters.has(text_[at_])) {
      ++at_;
    }
  }

  // A bracket, a string, or what lies between them.
  void skip_token(int& depth) {
    if (at_ >= text_.size()) {
      fail(text_, "JSON");
    }
    switch (text_[at_]) {
    case '"':
      skip_string();
      break;
    case '{':
    case '[':
      ++depth;
      ++at_;
      break;
    case '}':
    case ']':
      --depth;
      at_ += depth >= 0 ? 1 : 0; // else it ends what the value is in
      break;
    default:
      skip_to(depth > 0 ? kOfNesting : kAfterScalars);
    }
  }

  void skip_string() {
    for (++at_;; at_ += 2) { // a backslash and what it escapes
      skip_to(kOfStrings);
      if (at_ >= text_.size()) {
        fail(text_, "JSON");
      }
      if (text_[at_] == '"') {
        ++at_;
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <typename Number>
Number parsed(std::string_view value, const char* wanted) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size()) {
    fail(value, wanted);
  }
  return number;
}

template <typename Number>
std::vector<Number> list(std::string_view value, const char* wanted) {
  std::vector<Number> found;
  if (!value.starts_with('[')) {
    fail(value, "list");
  }
  for (const Member& element : members(value)) {
    found.push_back(parsed<Number>(element.value, wanted));
  }
  return found;
}

} // namespace

std::vector<Member> members(std::string_view value) {
  std::vector<Member> found;
  Cursor cursor(value);
  const bool object = cursor.take('{');
  if (!object && !cursor.take('[')) {
    fail(value, "object");
  }
  const char end = object ? '}' : ']';
  while (!cursor.take(end)) {
    if (!found.empty()) {
      cursor.expect(',');
    }
    Member& member = found.emplace_back();
    if (object) {
      const std::string_view key = cursor.value();
      member.key = key.substr(1, key.size() - 2);
      cursor.expect(':');
    }
    member.value = cursor.value();
  }
  return found;
}

std::string string(std::string_view value) {
  if (!value.starts_with('"')) {
    fail(value, "text");
  }
  if (value.find('\\') == std::string_view::npos) {
    return std::string(value.substr(1, value.size() - 2));
  }
  const auto escaped = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  return escaped.is_string() ? escaped.get<std::string>() : std::string(value);
}

double number(std::string_view value) {
  return parsed<double>(value, "number");
}

std::size_t count(std::string_view value) {
  return parsed<std::size_t>(value, "count");
}

bool boolean(std::string_view value) {
  return value == "true" || (value != "false" && (fail(value, "boolean"), false));
}

std::vector<double> numbers(std::string_view value) {
  return list<double>(value, "number");
}

std::vector<std::size_t> counts(std::string_view value) {
  return list<std::size_t>(value, "count");
}

} // namespace clusterbench::json_text

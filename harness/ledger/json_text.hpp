// Looks into the text of a JSON value without reading all of it: of a ledger's long lines most
// readers want little.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace clusterbench::json_text {

/// Thrown where a text is not the JSON that was expected.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One member of an object as text, its key without quotes. An element of an array has no key.
struct Member {
  std::string_view key, value;
};

/// The members of an object, or the elements of an array, in order. Values are told apart, not
/// read.
std::vector<Member> members(std::string_view value);

// What a value is; each throws Malformed if it is something else.
std::string string(std::string_view value);
double number(std::string_view value);
std::size_t count(std::string_view value);
bool boolean(std::string_view value);
std::vector<double> numbers(std::string_view value);
std::vector<std::size_t> counts(std::string_view value);

} // namespace clusterbench::json_text

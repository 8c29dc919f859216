// The two ways in which data can go wrong: what came in, and what could not be written.
#pragma once

#include <stdexcept>

namespace clusterbench::datasets {

/// Bad input. The message names the file, line, column or option; a program ends with exit code 64.
class InputError : public std::invalid_argument {
public:
  using std::invalid_argument::invalid_argument;
};

/// An output that cannot be written; nothing is left half-written. A program ends with exit
/// code 74.
class OutputError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace clusterbench::datasets

// The ways in which data can go wrong: what came in, what could not be written, and no memory.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

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

/// There is less memory than was asked for; the message has the numbers.
class OutOfMemory : public std::bad_alloc {
public:
  explicit OutOfMemory(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

private:
  std::string message_;
};

} // namespace clusterbench::datasets

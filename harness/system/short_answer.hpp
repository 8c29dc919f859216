// Asks a program something small, and believes neither its length nor its patience.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace clusterbench {

struct ShortQuestion {
  std::vector<std::string> command;
  std::string text;          ///< a line for its standard input, which then ends
  bool hears_errors = false; ///< whether standard error is read as well, or goes nowhere
  std::chrono::duration<double> patience{20};
  std::vector<std::string> environment = {}; ///< NAME=value, added
  std::vector<int> descriptors = {};         ///< that it inherits
};

struct ShortAnswer {
  std::string line;    ///< that was accepted, or empty
  std::string failure; ///< why there is none, in words
};

/// Starts the program and reads what it writes until a line that `is_answer` accepts. It is ended
/// with its process group when it has answered, has written 1 MiB without an answer, or the
/// patience is at its end, and when a signal of interrupt_signal() comes.
ShortAnswer ask_shortly(const ShortQuestion& question,
                        const std::function<bool(const std::string& line)>& is_answer);

} // namespace clusterbench

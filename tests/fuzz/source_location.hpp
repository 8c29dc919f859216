// std::source_location for clang before 16, which has not what libstdc++ makes it of. Included
// before all else.
#pragma once

#include <source_location>

#ifndef __cpp_lib_source_location
namespace std {

class source_location {
public:
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           unsigned line = __builtin_LINE()) {
    source_location location;
    location.file_ = file;
    location.line_ = line;
    return location;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return ""; }
  constexpr unsigned line() const { return line_; }

private:
  const char* file_ = "";
  unsigned line_ = 0;
};

} // namespace std
#endif

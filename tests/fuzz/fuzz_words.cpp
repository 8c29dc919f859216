// Any text as a start and as a stop rule: refused, or written as it is read again.
#include "datasets/errors.hpp"
#include "harness/problem/problem_spec.hpp"

#include <cstdint>
#include <cstdlib>

using namespace clusterbench;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string start = to_string(parse_init(text));
    if (to_string(parse_init(start)) != start)
      std::abort();
  } catch (const datasets::InputError&) {
  }
  try {
    const std::string stop = to_string(parse_stop(text, 10));
    if (to_string(parse_stop(stop, 10)) != stop)
      std::abort();
  } catch (const datasets::InputError&) {
  }
  return 0;
}

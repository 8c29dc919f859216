// Any text as a file of Google Benchmark: times that can be compared, or a refusal.
#include "datasets/errors.hpp"
#include "harness/report/compare/google_benchmark.hpp"

#include <cstdint>
#include <cstdlib>

using namespace clusterbench;
using nlohmann::json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const json file = json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (file.is_discarded())
    return 0;
  try {
    for (const auto& [name, cell] : timings_of_google_benchmark(file).cells)
      for (const auto& round : cell.runs_ms)
        if (cell.status != "ok" || round.empty())
          std::abort();
  } catch (const datasets::InputError&) {
  }
  return 0;
}

// Times from the JSON of Google Benchmark, ours or another program's.
#pragma once

#include "harness/report/compare/timings.hpp"

namespace clusterbench {

/// What of a file's `context` tells whether two were written on the same hardware.
nlohmann::json google_benchmark_hardware(const nlohmann::json& context);

/// Raw repetitions, not the library's aggregates. A repetition index that does not grow begins
/// another round. Throws datasets::InputError that names the field.
Timings timings_of_google_benchmark(const nlohmann::json& file);

} // namespace clusterbench

#include "harness/run/measure.hpp"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cmath>
#include <exception>
#include <numeric>
#include <sstream>

namespace clusterbench {
namespace {

// One invocation of Google Benchmark: `repetitions` repetitions of one iteration each, so that
// every number is a raw sample and not a mean. Returns its JSON.
nlohmann::json run_batch(const std::string& name, std::size_t repetitions,
                         const std::function<double()>& timed_run) {
  std::exception_ptr failure; // must not travel through the library
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark(name.c_str(),
                               [&](benchmark::State& state) {
                                 for ([[maybe_unused]] auto _ : state) {
                                   try {
                                     state.SetIterationTime(timed_run());
                                   } catch (...) {
                                     failure = std::current_exception();
                                     state.SkipWithError("the run failed");
                                   }
                                 }
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Repetitions(static_cast<int>(repetitions))
      ->ReportAggregatesOnly(false)
      ->Unit(benchmark::kMillisecond);
  std::ostringstream text;
  std::ostringstream errors;
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.SetErrorStream(&errors);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  if (failure) {
    std::rethrow_exception(failure);
  }
  return nlohmann::json::parse(text.str());
}

void initialise_library() {
  static const bool once = [] {
    int argc = 1;
    static char name[] = "clusterbench"; // the library keeps the pointer
    char* argv[] = {name, nullptr};
    benchmark::Initialize(&argc, argv);
    return true;
  }();
  static_cast<void>(once);
}

} // namespace

Samples take_samples(const std::string& name, const SamplingPlan& plan,
                     const std::function<double()>& timed_run) {
  initialise_library();
  Samples samples;
  const auto timed_and_kept = [&] {
    const double seconds = timed_run();
    samples.seconds.push_back(seconds);
    return seconds;
  };
  const auto keep_rows = [&](const nlohmann::json& batch) {
    samples.context = batch.at("context");
    samples.context["host_name"] = ""; // nobody's business, as in the provenance
    for (const auto& row : batch.at("benchmarks")) {
      if (row.at("run_type") == "iteration") {
        samples.row = samples.cpu_ms.empty() ? row : samples.row;
        samples.cpu_ms.push_back(row.at("cpu_time"));
      }
    }
  };

  const nlohmann::json first = run_batch(name, 1, timed_and_kept);
  const double first_seconds = samples.seconds.front();
  std::size_t wanted = 0;
  if (first_seconds > plan.slow_seconds) {
    wanted = std::min(plan.slow_samples, plan.samples);
    samples.ended_because = "one run takes long: fewer samples";
    keep_rows(first);
  } else {
    samples.warm_up_seconds = first_seconds;
    samples.seconds.clear();
    const double for_min_seconds = std::ceil(plan.min_seconds / std::max(first_seconds, 1e-9));
    wanted = for_min_seconds < static_cast<double>(plan.max_samples)
                 ? static_cast<std::size_t>(for_min_seconds)
                 : plan.max_samples;
    samples.ended_because =
        wanted > plan.samples
            ? wanted == plan.max_samples ? "largest number of samples" : "time is filled"
            : "number of samples is reached";
    wanted = std::max(wanted, plan.samples);
  }
  if (samples.seconds.size() < wanted) {
    keep_rows(run_batch(name, wanted - samples.seconds.size(), timed_and_kept));
  }
  // A name without the library's "/iterations:1/manual_time": the same cell has the same name in
  // every campaign, however often it was sampled.
  samples.row["name"] = name;
  samples.row["run_name"] = name;
  samples.row["repetitions"] = samples.seconds.size();
  return samples;
}

} // namespace clusterbench

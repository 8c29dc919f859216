#include "harness/campaign/measure.hpp"

#include "harness/worker/replies.hpp"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <iterator>
#include <sstream>
#include <vector>

namespace clusterbench {
namespace {

// Repetitions of one invocation of the library. It goes on with all of them after a run has failed,
// or was interrupted: a million, which do nothing, take half a minute.
constexpr std::size_t kMostAtOnce = 1000;

// Reports raw samples alone. What the library adds to several repetitions need not be a number:
// where the kernel counts a thread's time in ticks, the mean may be 0, by which it divides.
class SamplesReporter final : public benchmark::JSONReporter {
public:
  void ReportRuns(const std::vector<Run>& reports) override {
    std::vector<Run> samples;
    std::ranges::copy_if(reports, std::back_inserter(samples),
                         [](const Run& run) { return run.run_type == Run::RT_Iteration; });
    if (!samples.empty()) {
      benchmark::JSONReporter::ReportRuns(samples);
    }
  }
};

// What the library wrote. Behind its own words of the machine come those of BENCHMARK_CONTEXT,
// which no flag takes back: they are left out, for they may have the names of its own.
nlohmann::json samples_in(const std::string& text, const std::string& errors) {
  constexpr int kOfContext = 2; // the depth of its members
  bool last_of_its_own = false;
  const auto is_of_the_library = [&](int depth, nlohmann::json::parse_event_t event,
                                     const nlohmann::json& value) {
    if (event != nlohmann::json::parse_event_t::key || depth != kOfContext) {
      return true;
    }
    const bool is_own = !last_of_its_own;
    last_of_its_own = last_of_its_own || value == "library_build_type";
    return is_own;
  };
  nlohmann::json batch = nlohmann::json::parse(text, is_of_the_library, /*allow_exceptions=*/false);
  if (!batch.is_object() || !batch.contains("context") || !batch.contains("benchmarks") ||
      batch.at("benchmarks").empty()) {
    throw WorkerFailure(
        "error", fmt::format("Google Benchmark gave no sample of it{}{}; a variable BENCHMARK_... "
                             "of the environment may be the cause",
                             errors.empty() ? "" : ": ", errors));
  }
  return batch;
}

// One invocation of Google Benchmark: `repetitions` repetitions of one iteration each, so that
// every number is a raw sample and not a mean. Returns its JSON.
nlohmann::json run_batch(const std::string& name, std::size_t repetitions,
                         const std::function<double()>& timed_run) {
  std::exception_ptr failure; // must not travel through the library
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark(name.c_str(),
                               [&](benchmark::State& state) {
                                 if (failure) { // the repetitions after it
                                   state.SkipWithError("a run before has failed");
                                 }
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
  SamplesReporter reporter;
  reporter.SetOutputStream(&text);
  reporter.SetErrorStream(&errors);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  if (failure) {
    std::rethrow_exception(failure);
  }
  return samples_in(text.str(), errors.str());
}

// The library takes its flags from the environment, too: a number of samples, a filter that leaves
// none, a file to write, counters that it cannot read. All of them are said here, so that no
// variable decides.
void initialise_library() {
  static const bool once = [] {
    static std::vector<std::string> words = {"clusterbench", // the library keeps the pointer
                                             "--benchmark_list_tests=false",
                                             "--benchmark_filter=.",
                                             "--benchmark_min_time=0.5",
                                             "--benchmark_min_warmup_time=0",
                                             "--benchmark_repetitions=1",
                                             "--benchmark_enable_random_interleaving=false",
                                             "--benchmark_report_aggregates_only=false",
                                             "--benchmark_display_aggregates_only=false",
                                             "--benchmark_format=console",
                                             "--benchmark_out=",
                                             "--benchmark_out_format=json",
                                             "--benchmark_color=auto",
                                             "--benchmark_counters_tabular=false",
                                             "--benchmark_perf_counters=",
                                             "--benchmark_time_unit=",
                                             "--v=0"};
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    int argc = static_cast<int>(words.size());
    benchmark::Initialize(&argc, argv.data());
    return true;
  }();
  static_cast<void>(once);
}

} // namespace

Samples take_samples(const std::string& name, const SamplingPlan& plan,
                     const std::function<double()>& timed_run,
                     const std::function<double()>& wait) {
  initialise_library();
  Samples samples;
  std::vector<double> seconds; // of every run, the warm-up's included
  std::vector<double> cpu_ms;  // of every run, too
  double waited = 0.0;
  const auto timed_and_noted = [&] {
    waited += wait();
    return seconds.emplace_back(timed_run());
  };
  const auto start = std::chrono::steady_clock::now();
  SamplingStep step;
  do {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    step = next_step(plan, seconds, elapsed.count() - waited);
    for (std::size_t left = step.more; left > 0;) {
      const std::size_t now = std::min(left, kMostAtOnce);
      const nlohmann::json batch = run_batch(name, now, timed_and_noted);
      samples.context = batch.at("context");
      samples.row = batch.at("benchmarks").back(); // a million of them would fill the memory
      for (const nlohmann::json& row : batch.at("benchmarks")) {
        cpu_ms.push_back(row.at("cpu_time"));
      }
      left -= now;
    }
  } while (step.more > 0);

  const auto first_kept = static_cast<std::ptrdiff_t>(step.warm_up);
  samples.warm_up.assign(seconds.begin(), seconds.begin() + first_kept);
  samples.seconds.assign(seconds.begin() + first_kept, seconds.end());
  samples.cpu_ms.assign(cpu_ms.begin() + first_kept, cpu_ms.end());
  samples.ended_because = step.ended_because;
  samples.context["host_name"] = ""; // nobody's business, as in the provenance
  samples.row["repetition_index"] = 0;
  samples.row["real_time"] = samples.seconds.front() * 1e3;
  samples.row["cpu_time"] = samples.cpu_ms.front();
  // A name without the library's "/iterations:1/manual_time": the same cell has the same name in
  // every campaign, however often it was sampled.
  samples.row["name"] = name;
  samples.row["run_name"] = name;
  samples.row["repetitions"] = samples.seconds.size();
  return samples;
}

} // namespace clusterbench

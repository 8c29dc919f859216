#include "harness/report/compare/timings.hpp"

#include "datasets/errors.hpp"
#include "harness/ledger/ledger.hpp"
#include "harness/machine/environment.hpp"
#include "harness/report/compare/google_benchmark.hpp"
#include "harness/system/files.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <utility>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

// Processor time is of the whole request. Beside a short run, what is around it is too much. Where
// the samples are those of whole answers, it is that of these.
double processors_of(const std::vector<Row>& rounds) {
  constexpr double kLeastMs = 1.0;
  std::vector<double> of_samples;
  for (const Row& row : rounds) {
    const auto add = [&](double cpu_ms, double ms) {
      if (cpu_ms > 0.0 && ms >= kLeastMs) {
        of_samples.push_back(std::min(cpu_ms / ms, static_cast<double>(row.threads)));
      }
    };
    for (std::size_t i = 0; i < row.cpu_ms.size(); ++i) {
      add(row.cpu_ms[i], row.samples_ms[i]);
    }
    for (std::size_t i = 0; row.cpu_ms.empty() && i < row.whole.size(); ++i) {
      add(row.whole[i].cpu_ms, row.whole[i].ms);
    }
  }
  return of_samples.empty() ? 0.0 : median(of_samples);
}

CellTimings timings_of(const Measured& cell) {
  const Row& representative = cell.representative();
  CellTimings timings;
  timings.status = representative.status;
  timings.message = representative.message;
  timings.variant = representative.variant;
  if (cell.ok() && std::ranges::any_of(cell.rounds, &Row::unsandboxed)) {
    timings.status = "unsandboxed";
    timings.message = "it ran without a sandbox, and its answers vouch for nothing";
  } else if (cell.ok()) {
    timings.runs_ms = cell.runs_ms();
    timings.passes = pass_costs(cell);
    timings.processors = processors_of(cell.rounds);
    timings.on_gpus = cell.gpus() > 0;
  }
  return timings;
}

// Without what another campaign has otherwise.
std::vector<std::string> command_of(const json& command_line) {
  std::vector<std::string> words;
  bool skips_value = false;
  for (const json& word : command_line.is_array() ? command_line : json::array()) {
    const std::string argument = word.is_string() ? word.get<std::string>() : "";
    if (std::exchange(skips_value, false)) {
      continue;
    }
    const std::string option = argument.substr(0, argument.find('='));
    if (option == "--rounds" || option == "--starts" || option == "--out") {
      skips_value = option == argument;
      continue;
    }
    if (option != "--resume") {
      words.push_back(argument);
    }
  }
  return words;
}

// Of each number of threads that was probed; nothing where the probe was left out.
std::map<std::string, double> rates_of(const json& limits) {
  std::map<std::string, double> rates;
  const json none = json::array();
  const json& probed = limits.is_object() && limits.contains("cpu") ? limits.at("cpu") : none;
  for (const json& of_threads : probed.is_array() ? probed : none) {
    const json threads = of_threads.is_object() ? of_threads.value("threads", json()) : json();
    for (const char* name : {"read_gbs", "fma_f32_gflops"}) {
      const json rate = of_threads.is_object() ? of_threads.value(name, json()) : json();
      if (threads.is_number_integer() && rate.is_number() && rate > 0.0) {
        rates[fmt::format("{}, threads: {}", name, threads.get<int>())] = rate;
      }
    }
  }
  return rates;
}

Timings from_ledger(const std::filesystem::path& path) {
  const Measurements measurements = read_measurements({ledger_file(path).string()});
  Timings timings;
  timings.edited = measurements.edited.empty() ? "" : measurements.edited.front();
  for (const Measured& cell : measurements.cells) {
    timings.variants.insert(cell.representative().variant);
    timings.cells[{name_with_devices(cell.name(), cell.gpus(), cell.ranks()), cell.threads(),
                   cell.identity()}] = timings_of(cell);
    for (const Row& row : cell.rounds) {
      timings.environments.insert(row.header->environment_hash);
      const json time = row.header->line.value("time", json());
      if (time.is_string() && (timings.started.empty() || time < timings.started)) {
        timings.started = time;
      }
      timings.rates = rates_of(row.header->line.value("limits", json()));
      timings.command = command_of(row.header->line.value("command_line", json()));
      json environment = comparable_environment(row.header->line.at("provenance"));
      if (!timings.environment.is_null() && timings.environment != environment) {
        timings.earlier_environment = std::move(timings.environment);
      }
      timings.environment = std::move(environment);
      if (const json context = row.field("gbench_context"); !context.is_null()) {
        timings.context = google_benchmark_hardware(context);
      }
    }
  }
  return timings;
}

} // namespace

std::string shown_name(const CellName& cell, const std::vector<CellName>& of_that_name) {
  std::string text = cell.name;
  if (std::ranges::any_of(of_that_name,
                          [&](const CellName& other) { return other.threads != cell.threads; })) {
    text += fmt::format(", {} thread{}", cell.threads, cell.threads == 1 ? "" : "s");
  }
  std::vector<ProblemIdentity> problems;
  for (const CellName& other : of_that_name) {
    problems.push_back(other.problem);
  }
  const std::string differs = difference(cell.problem, problems);
  return differs.empty() ? text : text + ", " + differs;
}

void keep_cells(const std::vector<Timings*>& campaigns, const std::vector<std::string>& globs) {
  if (globs.empty()) {
    return;
  }
  std::size_t left = 0;
  std::vector<std::string> sources;
  for (Timings* campaign : campaigns) {
    std::map<std::string, std::vector<CellName>> by_name;
    for (const auto& [cell, timings] : campaign->cells) {
      by_name[cell.name].push_back(cell);
    }
    campaign->left_out += std::erase_if(campaign->cells, [&](const auto& cell) {
      const std::string& name = cell.first.name;
      const std::string shown = shown_name(cell.first, by_name.at(name));
      return std::ranges::none_of(globs, [&](const std::string& glob) {
        return fnmatch(glob.c_str(), name.c_str(), 0) == 0 ||
               fnmatch(glob.c_str(), shown.c_str(), 0) == 0;
      });
    });
    left += campaign->cells.size();
    sources.push_back(campaign->source);
  }
  if (left == 0) {
    throw InputError(fmt::format("--cells {}: no cell of {} matches", fmt::join(globs, " "),
                                 fmt::join(sources, " or ")));
  }
}

Timings read_timings(const std::filesystem::path& path) {
  Timings timings;
  if (path.extension() != ".json" || std::filesystem::is_directory(path)) {
    timings = from_ledger(path);
  } else {
    try {
      timings = timings_of_google_benchmark(read_json_file(path));
    } catch (const InputError& error) {
      const std::string what = error.what(); // the file's own reader names it
      throw what.starts_with(path.string())
          ? error
          : InputError(fmt::format("{}: {}", path.string(), what));
    }
  }
  timings.source = path.string();
  return timings;
}

} // namespace clusterbench

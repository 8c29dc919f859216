#include "harness/ledger/limits.hpp"

#include "harness/ledger/statistics.hpp"
#include "harness/machine/probe.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;

struct Limit {
  double seconds = 0.0;
  std::string name;
};

// Several GPUs share the work of a pass.
int gpus_of(const json& row) {
  return row.value("gpus", row.at("device") == "gpu" ? 1 : 0);
}

// What the probe found of a device, or why it found nothing that a row could stand beside.
struct DeviceLimits {
  std::optional<json> figures;
  std::string missing;
};

// Of the device that the row was measured on.
DeviceLimits device_limits(const json& row, const json& limits) {
  if (limits.empty()) {
    return {{}, "the machine's rates were not measured"};
  }
  if (gpus_of(row) > 0) {
    if (const json gpu = limits.value("gpu", json()); gpu.is_object()) {
      return {gpu, ""};
    }
    const std::string reason = limits.value("gpu_missing", "");
    return {{},
            reason.empty() ? "the probe measured no rates of a GPU"
                           : fmt::format("the probe measured no rates of a GPU ({})", reason)};
  }
  const int threads = row.at("threads");
  DeviceLimits found{
      {},
      fmt::format("the probe measured no rates of {} thread{}", threads, threads == 1 ? "" : "s")};
  for (const json& cpu : limits.value("cpu", json::array())) {
    if (cpu.at("threads") != threads) {
      continue;
    }
    // Where other processes had the processor most of the time, the figures are no limits.
    constexpr double kUndisturbed = 0.5;
    const double share = cpu.at("cpu_share");
    if (share >= kUndisturbed) {
      return {cpu, ""};
    }
    found.missing = fmt::format(
        "other programs disturbed the probe of the machine's rates, which had {:.0f} % of "
        "its processors' time and needs {:.0f} %",
        std::floor(100.0 * share), 100.0 * kUndisturbed);
  }
  return found;
}

// A probe of an earlier version has not measured every rate.
std::optional<double> figure(const json& device, const std::string& key) {
  const auto found = device.find(key);
  return found != device.end() && found->is_number() ? std::optional(found->get<double>())
                                                     : std::nullopt;
}

// What the row's variant multiplies on. Tensor cores that were not probed count as multiply-adds.
struct Unit {
  std::string multiplying; // key of its rate
  std::string name;        // of that rate
  /// Of the rates at which the least of its scores is found. Tensor cores make floats, which may be
  /// compared as they are, or in pairs once they are rounded.
  std::vector<std::string> comparing;
};

Unit unit_of(const json& row, const json& device) {
  const std::string multiplier = row.value("multiplier", "fma");
  const std::vector<std::string> tensor = {"compare_f32_gpairs", "compare_f16_gpairs"};
  for (const auto& [name, unit] :
       {std::pair{"tensor tf32", Unit{"gemm_tf32_gflops", "tensor TF32 rate", tensor}},
        std::pair{"tensor f16", Unit{"gemm_f16_gflops", "tensor f16 rate", tensor}}}) {
    if (multiplier == name && figure(device, unit.multiplying)) {
      return unit;
    }
  }
  return row.at("precision") == "f32" ? Unit{"fma_f32_gflops", "FMA rate", {"compare_f32_gpairs"}}
                                      : Unit{"fma_f64_gflops", "FMA rate", {"compare_f64_gpairs"}};
}

// A pass can be no faster than the slowest of: reading its points, at the bandwidth of the memory
// level that holds them; multiplying; comparing; and, on a GPU, telling all blocks of the pass
// before it.
std::optional<Limit> limit_per_pass(const json& row, const json& limits, const MinimalWork& work) {
  const std::optional<json> device = device_limits(row, limits).figures;
  if (!device) {
    return std::nullopt;
  }
  CpuLimits table; // its table of bandwidth by size serves for a GPU as well
  for (const json& size : device->at("read_by_size")) {
    table.read_by_size.push_back({size.at("bytes"), size.at("gbs")});
  }
  const double gbs = read_limit_gbs(table, static_cast<std::size_t>(work.bytes));
  const Unit unit = unit_of(row, *device);
  std::vector<Limit> found = {
      {work.bytes / (gbs * 1e9), "read bandwidth"},
      {work.flops / (figure(*device, unit.multiplying).value() * 1e9), unit.name}};
  double gpairs = 0.0;
  for (const std::string& key : unit.comparing) {
    gpairs = std::max(gpairs, figure(*device, key).value_or(0.0));
  }
  if (gpairs > 0.0) {
    found.push_back({work.comparisons / (gpairs * 1e9), "comparison rate"});
    const auto node_us = figure(*device, "graph_node_us"),
               barrier_us = figure(*device, "grid_barrier_us");
    if (node_us && barrier_us) {
      found.push_back({std::min(*node_us, *barrier_us) * 1e-6, "exchange of a pass"});
    }
  }
  return *std::ranges::max_element(found, {}, &Limit::seconds);
}

} // namespace

std::string why_no_limit(const json& row, const json& limits) {
  return device_limits(row, limits).missing;
}

MinimalWork minimal_work(Family family, Precision precision, std::size_t n, std::size_t d,
                         std::size_t k, bool weighted) {
  const double points = static_cast<double>(n);
  const double element = precision == Precision::f32 ? 4.0 : 8.0;
  MinimalWork work;
  work.bytes = points * static_cast<double>(d + (weighted ? 1 : 0)) * element;
  work.flops = 2.0 * points * static_cast<double>(k) * static_cast<double>(d);
  if (family == Family::fcm) {
    work.flops *= 2.0;
  } else {
    work.comparisons = points * static_cast<double>(k - 1);
  }
  return work;
}

void add_derived_figures(json& row, const json& limits) {
  if (!row.contains("samples_ms") || row.at("samples_ms").empty()) {
    return;
  }
  const auto samples = row.at("samples_ms").get<std::vector<double>>();
  const Summary summary = summarize(samples);
  // Where the stop rule decides, runs from other starts make other numbers of passes.
  std::vector<double> per_iteration, passes;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    passes.push_back(row.at("sample_iterations").at(i).get<double>());
    // a wrong row may claim none
    per_iteration.push_back(samples[i] / std::max(passes.back(), 1.0));
  }
  row["median_ms"] = summary.median;
  row["mad_ms"] = summary.mad;
  row["interval_ms"] = {summary.interval.low, summary.interval.high};
  row["outliers"] = {{"low", summary.outliers.low}, {"high", summary.outliers.high}};
  row["iterations"] = median(passes);
  row["ms_per_iteration"] = median(per_iteration);
  if (row.contains("plain_reads_ms")) {
    std::vector<double> percent;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      percent.push_back(100.0 * row.at("plain_reads_ms").at(i).get<double>() / per_iteration[i]);
    }
    row["percent_of_plain_read"] = median(percent);
  }

  const json& problem = row.at("problem");
  const auto n = problem.at("n").get<std::size_t>();
  const auto d = problem.at("d").get<std::size_t>();
  const auto k = problem.at("k").get<std::size_t>();
  const MinimalWork work = minimal_work(parse_family(problem.at("family").get<std::string>()),
                                        parse_precision(row.at("precision").get<std::string>()), n,
                                        d, k, problem.contains("weights"));
  const double seconds = row.at("ms_per_iteration").get<double>() * 1e-3;
  row["point_centroids_per_second"] = static_cast<double>(n) * static_cast<double>(k) / seconds;
  row["gb_per_second"] = work.bytes / seconds * 1e-9;
  row["gflop_per_second"] = work.flops / seconds * 1e-9;
  const double shares = std::max(gpus_of(row), 1);
  const MinimalWork share{work.bytes / shares, work.flops / shares, work.comparisons / shares};
  if (const auto limit = limit_per_pass(row, limits, share)) {
    row["limit_ms_per_iteration"] = limit->seconds * 1e3;
    row["percent_of_limit"] = 100.0 * limit->seconds / seconds;
    row["limit"] = limit->name;
  }
}

} // namespace clusterbench

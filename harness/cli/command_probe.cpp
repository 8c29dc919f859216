#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/machine/gpu_probe.hpp"
#include "harness/machine/nvml.hpp"
#include "harness/machine/probe.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/system/exit_codes.hpp"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

struct ProbeArguments {
  bool quick = false;
  bool as_json = false;
  int threads = default_threads();
};

std::pair<json, ExitCode> measure(const ProbeArguments& arguments) {
  json limits;
  if (arguments.quick) {
    limits["cpu"] = json::array({probe_cpu(arguments.threads, 0.02)});
  } else {
    limits["cpu"] = probe_cpu_scaling(arguments.threads, 0.1);
  }
  const std::string no_gpu = cuda_missing_reason();
  if (!no_gpu.empty()) {
    limits["gpu"] = nullptr;
    limits["gpu_missing"] = no_gpu;
  } else if (!has_gpu_probe()) {
    limits["gpu"] = nullptr;
    limits["gpu_missing"] = "this build has no CUDA backend";
  } else {
    try {
      limits["gpu"] = measure_gpu(arguments.quick);
    } catch (const std::runtime_error& error) { // the processor's rates hold all the same
      limits["gpu"] = nullptr;
      limits["gpu_missing"] = error.what();
      return {limits, ExitCode::cells_missing};
    }
  }
  return {limits, ExitCode::ok};
}

void print_text(const json& limits) {
  for (const json& cpu : limits.at("cpu")) {
    fmt::print("{} thread{}: read {:.1f} GB/s, FMA {:.0f} GFLOP/s (f32), {:.0f} GFLOP/s (f64), "
               "comparing {:.0f} Gpairs/s (f32), {:.0f} Gpairs/s (f64)\n",
               cpu.at("threads").get<int>(), cpu.at("threads") == 1 ? "" : "s",
               cpu.at("read_gbs").get<double>(), cpu.at("fma_f32_gflops").get<double>(),
               cpu.at("fma_f64_gflops").get<double>(), cpu.at("compare_f32_gpairs").get<double>(),
               cpu.at("compare_f64_gpairs").get<double>());
    for (const json& size : cpu.at("read_by_size")) {
      fmt::print("  {:>10} KiB: {:.1f} GB/s\n", size.at("bytes").get<std::size_t>() >> 10,
                 size.at("gbs").get<double>());
    }
  }
  if (limits.at("gpu").is_null()) {
    fmt::print("GPU: {}\n", limits.at("gpu_missing").get<std::string>());
  } else {
    fmt::print("GPU:\n{}\n", limits.at("gpu").dump(2));
  }
}

} // namespace

void add_probe_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<ProbeArguments>();
  CLI::App* command = app.add_subcommand(
      "probe", "Measure the rates of this machine, which the model bound is made of");
  command->add_flag("--quick", arguments->quick, "Fewer sizes, shorter measurements");
  command->add_flag("--json", arguments->as_json, "Machine-readable");
  command->add_option("--threads", arguments->threads, "Up to so many CPU threads")
      ->capture_default_str();
  command->callback([&action, arguments] {
    action = [arguments] {
      check_threads(arguments->threads);
      const auto [limits, code] = measure(*arguments);
      if (arguments->as_json) {
        fmt::print("{}\n", limits.dump());
      } else {
        print_text(limits);
      }
      return code;
    };
  });
}

} // namespace clusterbench

#include "harness/machine/measured_limits.hpp"

#include "harness/system/messages.hpp"
#include "harness/system/process.hpp"
#include "harness/system/shared_memory.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace clusterbench {

nlohmann::json measure_limits(int threads) {
  const SharedMemory output("probe");
  ProcessOptions options;
  options.arguments = {own_path(), "probe",     "--quick",
                       "--json",   "--threads", std::to_string(threads)};
  options.output_descriptor = output.fd();
  options.timeout = std::chrono::seconds(120);
  try {
    run_process(options);
  } catch (const std::runtime_error& error) { // no limit of processes costs a campaign its rows
    say("clusterbench: no limits are measured: {}\n", error.what());
    return nlohmann::json::object();
  }
  auto limits = nlohmann::json::parse(read_all(output.fd()), nullptr, /*allow_exceptions=*/false);
  return limits.is_discarded() ? nlohmann::json::object() : limits;
}

} // namespace clusterbench

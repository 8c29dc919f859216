#include "harness/cli/gate_report.hpp"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

using nlohmann::json;

std::vector<std::string> line_of(const GatedCell& cell) {
  const std::string verdict =
      cell.message.empty() ? cell.verdict : fmt::format("{} ({})", cell.verdict, cell.message);
  if (cell.log_ratios.size() < 2) {
    return {cell.name, "", "", "", "", "", verdict};
  }
  return {cell.name,
          fmt::format("{:.4g}", cell.base_ms),
          fmt::format("{:.4g}", cell.new_ms),
          fmt::format("{:+.1f} %", (cell.ratio - 1.0) * 100.0),
          fmt::format("{:+.1f} .. {:+.1f} %", std::expm1(cell.bounds.low) * 100.0,
                      std::expm1(cell.bounds.high) * 100.0),
          fmt::format("{}", cell.log_ratios.size() + cell.first_alarm.size()),
          verdict};
}

std::string headline(const std::vector<GatedCell>& cells) {
  std::map<std::string, int> counts;
  double seconds = 0.0;
  for (const GatedCell& cell : cells) {
    ++counts[cell.verdict];
    seconds += cell.seconds;
  }
  std::string text;
  for (const auto& [verdict, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, verdict);
  }
  return fmt::format("{} of {} cells, {:.1f} s", text, cells.size(), seconds);
}

std::string rule(const GateOptions& options) {
  return fmt::format(
      "A slowdown of {:g} % is to be found; the range holds the true one but for 1 % on "
      "each side. Noise of one pair: {:.2f} %, {}.",
      options.test.min_effect * 100.0, options.floor.pair_sd * 100.0,
      options.floor.calibrated ? "calibrated on this machine"
                               : "assumed; `gate --calibrate` measures it");
}

} // namespace

ExitCode exit_code_of(const std::vector<GatedCell>& cells) {
  ExitCode code = ExitCode::ok;
  for (const GatedCell& cell : cells) {
    code = graver(code, exit_code_of(cell));
  }
  return code;
}

std::string render_gate(const std::vector<GatedCell>& cells, const GateOptions& options,
                        TextStyle style) {
  std::vector<std::vector<std::string>> lines;
  for (const GatedCell& cell : cells) {
    lines.push_back(line_of(cell));
  }
  const std::string table = text_table({{"cell", false},
                                        {"base ms", true},
                                        {"new ms", true},
                                        {"change", true},
                                        {"range", true},
                                        {"pairs", true},
                                        {"verdict", false}},
                                       lines, style);
  if (style == TextStyle::markdown) {
    return fmt::format("**{}**\n\n{}\n{}\n", headline(cells), table, rule(options));
  }
  return fmt::format("{}{}\n{}\n", table, headline(cells), rule(options));
}

json to_json(const std::vector<GatedCell>& cells, const GateOptions& options) {
  json entries = json::array();
  for (const GatedCell& cell : cells) {
    json entry = {{"name", cell.name},
                  {"verdict", cell.verdict},
                  {"message", cell.message},
                  {"iterations", cell.iterations},
                  {"log_ratios", cell.log_ratios},
                  {"first_alarm", cell.first_alarm},
                  {"disturbed_pairs", cell.disturbed_pairs},
                  {"noise_floor", options.floor.of(cell.name)},
                  {"seconds", cell.seconds}};
    if (cell.log_ratios.size() >= 2) {
      entry.update({{"base_ms", cell.base_ms},
                    {"new_ms", cell.new_ms},
                    {"ratio", cell.ratio},
                    {"bounds", {std::exp(cell.bounds.low), std::exp(cell.bounds.high)}}});
    }
    entries.push_back(entry);
  }
  return {{"schema", 1},
          {"base", options.executables[0].string()},
          {"new", options.executables[1].string()},
          {"min_effect", options.test.min_effect},
          {"threads", options.threads},
          {"calibrated", options.floor.calibrated},
          {"cells", entries},
          {"exit_code", static_cast<int>(exit_code_of(cells))}};
}

} // namespace clusterbench

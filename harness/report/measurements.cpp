#include "harness/report/measurements.hpp"

#include "harness/run/ledger.hpp"
#include "harness/run/limits.hpp"
#include "harness/run/statistics.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace clusterbench {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

Machine machine_of(const json& header) {
  Machine machine;
  machine.environment = header.value("environment_hash", "");
  const json& provenance = header.at("provenance");
  const json& cpu = provenance.at("cpu");
  machine.cpu = text_of(cpu.value("model", json()));
  for (const json& gpu : provenance.at("gpu").at("devices")) {
    machine.gpu += (machine.gpu.empty() ? "" : ", ") + text_of(gpu.value("name", json()));
  }
  machine.name = machine.cpu.empty() ? "unknown processor" : machine.cpu;
  // A container may be allowed fewer cores than its machine has.
  const json cores = cpu.contains("allowed") ? cpu.at("allowed") : cpu.value("online", json());
  if (cores.is_number()) {
    machine.name += fmt::format(", {} core{}", cores.get<int>(), cores.get<int>() == 1 ? "" : "s");
  }
  if (!machine.gpu.empty()) {
    machine.name = machine.gpu + "; " + machine.name;
  }
  return machine;
}

// The machine of a header, added if it is new.
std::size_t known_machine(std::vector<Machine>& machines, const json& header,
                          const std::string& ledger) {
  const Machine described = machine_of(header);
  auto found = std::ranges::find(machines, described.environment, &Machine::environment);
  if (found == machines.end()) {
    found = machines.insert(machines.end(), described);
    found->id = machine_id(machines.size() - 1);
  }
  if (std::ranges::find(found->ledgers, ledger) == found->ledgers.end()) {
    found->ledgers.push_back(ledger);
  }
  return static_cast<std::size_t>(found - machines.begin());
}

// Keeps the newest row of a round.
void add_row(std::vector<Measured>& cells, std::size_t machine, json row) {
  const auto same = [&](const Measured& cell) {
    return cell.machine == machine && cell.threads == row.at("threads") &&
           cell.variant == row.at("variant").get_ref<const std::string&>() &&
           cell.precision == row.at("precision").get_ref<const std::string&>() &&
           cell.problem == row.at("problem").value("id", "");
  };
  auto cell = std::ranges::find_if(cells, same);
  if (cell == cells.end()) {
    cell = cells.insert(cells.end(), Measured{.machine = machine,
                                              .threads = row.at("threads"),
                                              .problem = row.at("problem").value("id", ""),
                                              .variant = row.at("variant"),
                                              .precision = row.at("precision"),
                                              .rounds = {}});
  }
  const auto round =
      std::ranges::find_if(cell->rounds, [&](const json& known) { // a later line is newer
        return known.at("round") == row.at("round");
      });
  if (round == cell->rounds.end()) {
    cell->rounds.push_back(std::move(row));
  } else if (row.at("status") != "unavailable") { // a later build may have lacked the backend
    *round = std::move(row);
  }
}

// Reports need these of any row, and samples of a row that is right; a row that lacks one is found
// here, where the line is known.
void check_fields(const json& row) {
  for (const char* field : {"variant", "precision", "status", "message", "device"}) {
    row.at(field).get_ref<const std::string&>();
  }
  if (row.at("status") == "ok") {
    row.at("samples_ms");
  }
}

// The days of the rows that stand for the cells: other rows of a ledger may be of other days.
void add_days(Measurements& measurements) {
  for (const Measured& cell : measurements.cells) {
    Machine& machine = measurements.machines[cell.machine];
    for (const json& row : cell.rounds) {
      machine.measured_on(row.value("time", "").substr(0, 10));
    }
  }
}

bool belongs(const json& line, const std::string& table) {
  return line.value("type", "") == "cell" && line.at("table") == table;
}

} // namespace

std::string machine_id(std::size_t index) {
  return index < 26 ? std::string(1, static_cast<char>('A' + index)) : fmt::format("M{}", index);
}

void Machine::measured_on(const std::string& day) {
  if (!day.empty()) {
    first_day = first_day.empty() ? day : std::min(first_day, day);
    last_day = std::max(last_day, day);
  }
}

std::string Machine::days() const {
  return first_day == last_day ? last_day : fmt::format("{} to {}", first_day, last_day);
}

const json& Measured::speaker() const {
  const auto failed =
      std::ranges::find_if(rounds, [](const json& row) { return row.at("status") != "ok"; });
  return failed == rounds.end() ? rounds.back() : *failed;
}

double Measured::median_of(const char* field) const {
  std::vector<double> values;
  for (const json& row : rounds) {
    const auto value = row.find(field);
    if (value == row.end() || !value->is_number()) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    values.push_back(value->get<double>());
  }
  return median(values);
}

std::optional<PooledRounds> Measured::times() const {
  Rounds samples;
  for (const json& row : rounds) {
    if (!row.contains("samples_ms") || row.at("samples_ms").empty()) {
      return std::nullopt;
    }
    samples.push_back(row.at("samples_ms").get<std::vector<double>>());
  }
  return pool_rounds(samples);
}

Measurements read_measurements(const std::vector<std::string>& ledgers, const std::string& table) {
  Measurements result;
  for (const std::string& ledger : ledgers) {
    json limits = json::object();
    std::size_t machine = result.machines.size();
    for_each_line(ledger, [&](json& line) {
      if (line.at("type") == "header") {
        limits = line.at("limits");
        machine = known_machine(result.machines, line, ledger);
      } else if (belongs(line, table)) {
        if (machine == result.machines.size()) { // rows without a header
          Machine& unknown = result.machines.emplace_back();
          unknown.id = machine_id(machine);
          unknown.name = "unknown machine";
          unknown.ledgers = {ledger};
        }
        check_fields(line);
        add_derived_figures(line, limits);
        add_row(result.cells, machine, std::move(line));
      }
    });
  }
  add_days(result);
  // Ledgers of one machine may stand apart on the command line.
  std::ranges::stable_sort(result.cells, {}, &Measured::machine);
  return result;
}

Measurements campaign_measurements(const std::vector<json>& rows, const std::string& table) {
  Measurements result;
  Machine& here = result.machines.emplace_back();
  here.id = machine_id(0);
  here.name = "this machine";
  for (const json& row : rows) {
    if (belongs(row, table)) {
      add_row(result.cells, 0, row);
    }
  }
  return result;
}

} // namespace clusterbench

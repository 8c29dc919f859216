#include "harness/report/explain/cell_shift.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <map>
#include <utility>

namespace clusterbench {
namespace {

// table/problem/precision: the name without the variant.
std::string cell_of(const Row& row) {
  const std::string end = "/" + row.variant + "/" + row.precision;
  return row.name.substr(0, row.name.size() - end.size()) + "/" + row.precision;
}

// Phases of the newest round, in order of name.
std::vector<PhaseShift> phases_of(const Row& before, const Row& after) {
  std::map<std::string, PhaseShift> phases;
  const auto add = [&](const Row& row, std::optional<double> PhaseShift::*side) {
    const double passes = std::max(row.number("recorded_passes").value_or(0.0), 1.0);
    const nlohmann::json found = row.field("phases_ms"); // items() does not keep it alive
    for (const auto& [name, milliseconds] : found.items()) {
      phases[name].phase = name;
      phases[name].*side = milliseconds.get<double>() / passes;
    }
  };
  add(before, &PhaseShift::before);
  add(after, &PhaseShift::after);
  std::vector<PhaseShift> result;
  for (auto& [name, phase] : phases) {
    result.push_back(std::move(phase));
  }
  return result;
}

std::optional<Ratio> ratio_where_known(const Costs& before, const Costs& after) {
  return before.rounds.empty() || after.rounds.empty() ? std::nullopt
                                                       : std::optional(ratio_of(before, after));
}

// With the starts that the passes had, sample by sample.
Costs costs_of_runs(const Measured& cell) {
  Costs costs = pass_costs(cell);
  Rounds runs = cell.runs_ms();
  if (runs.size() != costs.rounds.size()) {
    return {};
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    costs.rounds[i].ms = std::move(runs[i]);
  }
  return costs;
}

// Half of all samples lie within one deviation, nearly all within three; two of them differ by
// twice that at most.
double scatter_ms(const Costs& before, const Costs& after) {
  double most = 0.0;
  for (const Costs* costs : {&before, &after}) {
    most = std::max(most, costs->rounds.empty() ? 0.0 : 6.0 * deviation_of_rounds(costs->ms()));
  }
  return most;
}

CellShift shift_of(const Machine& machine, const Measured& before, const Measured& after) {
  CellShift shift;
  shift.cell = cell_of(before.representative());
  shift.machine = machine.name;
  shift.before = before;
  shift.after = after;
  shift.per_iteration = ratio_of(pass_costs(before), pass_costs(after));
  shift.whole = ratio_where_known(whole_costs(before), whole_costs(after));
  shift.run = ratio_where_known(costs_of_runs(before), costs_of_runs(after));
  shift.pass_scatter_ms = scatter_ms(pass_costs(before), pass_costs(after));
  shift.whole_scatter_ms = scatter_ms(whole_costs(before), whole_costs(after));
  shift.phases = phases_of(before.rounds.back(), after.rounds.back());
  return shift;
}

// Whether the other was measured on the same machine with as many threads, and did the same.
bool is_counterpart(const Measured& cell, const Measured& other) {
  return other.machine == cell.machine && other.threads() == cell.threads() &&
         other.identity().same_work(cell.identity());
}

bool within_same_limits(const Measured& a, const Measured& b) {
  return a.identity().limits == b.identity().limits;
}

// Cells of one name get what their problems differ by into it.
void tell_apart(std::vector<CellShift>& shifts) {
  std::map<std::string, std::vector<ProblemIdentity>> problems;
  for (const CellShift& shift : shifts) {
    problems[shift.cell].push_back(shift.before.identity());
  }
  for (CellShift& shift : shifts) {
    const std::string differs = difference(shift.before.identity(), problems.at(shift.cell));
    shift.cell += differs.empty() ? "" : ", " + differs;
  }
}

} // namespace

CellShifts cell_shifts(const std::vector<std::string>& ledgers, const std::string& before,
                       const std::string& after, const std::string& cell) {
  const Measurements measurements = read_measurements(ledgers);
  CellShifts shifts;
  shifts.edited = measurements.edited;
  for (const Measured& first : measurements.cells) {
    const Row& row = first.representative();
    const std::string name = cell_of(row);
    if (row.variant != before || !first.ok() || fnmatch(cell.c_str(), name.c_str(), 0) != 0) {
      continue;
    }
    const Measured* second = nullptr;
    for (const Measured& other : measurements.cells) {
      if (other.ok() && other.representative().variant == after &&
          cell_of(other.representative()) == name && is_counterpart(first, other) &&
          (second == nullptr || !within_same_limits(first, *second))) {
        second = &other;
      }
    }
    if (second != nullptr) {
      shifts.cells.push_back(shift_of(measurements.machines[first.machine], first, *second));
    }
  }
  tell_apart(shifts.cells);
  return shifts;
}

} // namespace clusterbench

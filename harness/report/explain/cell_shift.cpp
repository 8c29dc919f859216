#include "harness/report/explain/cell_shift.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <map>

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

CellShift shift_of(const Machine& machine, const Measured& before, const Measured& after) {
  CellShift shift;
  shift.cell = cell_of(before.representative());
  shift.machine = machine.name;
  shift.before = before;
  shift.after = after;
  shift.per_iteration = ratio_of(pass_costs(before), pass_costs(after));
  const Costs whole_before = whole_costs(before), whole_after = whole_costs(after);
  if (!whole_before.rounds.empty() && !whole_after.rounds.empty()) {
    shift.whole = point_ratio(whole_before, whole_after);
  }
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

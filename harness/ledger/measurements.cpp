#include "harness/ledger/measurements.hpp"

#include "harness/ledger/ledger.hpp"
#include "harness/machine/environment.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace clusterbench {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

Machine machine_of(const Header& header) {
  Machine machine;
  machine.environment = header.environment_hash;
  machine.comparable = comparable_environment(header.line.at("provenance"));
  const json& provenance = header.line.at("provenance");
  const json& cpu = provenance.at("cpu");
  machine.cpu = text_of(cpu.value("model", json()));
  for (const json& gpu : provenance.at("gpu").at("devices")) {
    machine.gpu += (machine.gpu.empty() ? "" : ", ") + text_of(gpu.value("name", json()));
  }
  machine.name = machine.cpu.empty() ? "unknown processor" : machine.cpu;
  // A container may be allowed fewer cores than its machine has.
  const json cores = cpu.contains("allowed") ? cpu.at("allowed") : cpu.value("online", json());
  if (cores.is_number_integer()) {
    machine.name += fmt::format(", {} core{}", cores.dump(), cores == 1 ? "" : "s");
  }
  if (!machine.gpu.empty()) {
    machine.name = machine.gpu + "; " + machine.name;
  }
  return machine;
}

// A newer probe's figures take the place of those of the same device and number of threads.
void add_limits(json& known, const json& limits) {
  for (const json& cpu : limits.value("cpu", json::array())) {
    json kept = json::array({cpu});
    for (const json& other : known.value("cpu", json::array())) {
      if (other.at("threads") != cpu.at("threads")) {
        kept.push_back(other);
      }
    }
    known["cpu"] = kept;
  }
  if (const json gpu = limits.value("gpu", json()); gpu.is_object()) {
    known["gpu"] = gpu;
  }
}

void add_shares(std::vector<double>& shares, const json& limits) {
  for (const json& cpu : limits.value("cpu", json::array())) {
    if (const json share = cpu.value("cpu_share", json()); share.is_number()) {
      shares.push_back(share);
    }
  }
}

// A cell on one machine with one number of threads, GPUs and ranks, as far as every row tells it.
std::string place_of(const Row& row) {
  const int gpus = row.gpus > 1 ? row.gpus : 0; // an older ledger does not say that it was one
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", row.header->environment_hash, row.threads, gpus,
                     row.ranks, row.name, row.identity.definition);
}

// Numbers cells from 0. A row without data, of a problem that could not be built say, belongs to
// the newest cell of its place: what has mended it replaces it.
class CellNumbers {
public:
  std::size_t of(const Row& row) {
    std::vector<std::size_t>& here = by_place_[place_of(row)];
    const auto found = std::find_if(here.rbegin(), here.rend(), [&](std::size_t cell) {
      return known_[cell].may_be(row.identity);
    });
    if (found != here.rend()) {
      known_[*found].learn(row.identity);
      return *found;
    }
    here.push_back(known_.size());
    known_.push_back(row.identity);
    return here.back();
  }

private:
  std::unordered_map<std::string, std::vector<std::size_t>> by_place_;
  std::vector<ProblemIdentity> known_;
};

struct CountingRow {
  Row row;
  std::size_t cell; ///< its number
};

// Of the harness and the variant. Older ledgers tell the harness alone.
std::string build_of(const Row& row) {
  const json build = row.field("build");
  return text_of(build.is_null() ? row.header->line.value("binary_sha256", json()) : build);
}

// The newest of a round takes the place of those before, and a newer build of a cell that of all
// rounds of an older one: a cell is of one build.
std::vector<CountingRow> counting_rows(std::vector<Row> rows) {
  std::vector<CountingRow> counting;
  CellNumbers numbers;
  std::map<std::pair<std::size_t, int>, std::size_t> places;
  std::unordered_map<std::size_t, std::string> builds; // the newest of a cell that has it
  for (Row& row : rows) {
    const std::size_t cell = numbers.of(row);
    if (row.status != "unavailable") {
      builds[cell] = build_of(row);
    }
    const auto [place, is_new] = places.try_emplace({cell, row.round}, counting.size());
    if (is_new) {
      counting.push_back({std::move(row), cell});
    } else if (row.status != "unavailable") {
      counting[place->second].row = std::move(row);
    }
  }
  std::erase_if(counting, [&](const CountingRow& one) {
    const auto newest = builds.find(one.cell);
    return newest != builds.end() && newest->second != build_of(one.row);
  });
  return counting;
}

class Builder {
public:
  explicit Builder(std::vector<Row> rows) : rows_(std::move(rows)) {}

  Measurements build() {
    for (CountingRow& counting : counting_rows(std::move(rows_))) {
      add_row(std::move(counting.row), counting.cell);
    }
    for (Measured& cell : result_.cells) {
      std::ranges::sort(cell.rounds, {}, &Row::round);
    }
    // Ledgers of one machine may stand apart on the command line.
    std::ranges::stable_sort(result_.cells, {}, &Measured::machine);
    choose_shown();
    return std::move(result_);
  }

private:
  void add_row(Row row, std::size_t number) {
    const std::size_t machine = machine_index(*row.header);
    note(result_.machines[machine], row);
    const auto [place, is_new] = cells_.try_emplace(number, result_.cells.size());
    if (is_new) {
      result_.cells.emplace_back().machine = machine;
    }
    result_.cells[place->second].rounds.push_back(std::move(row));
  }

  std::size_t machine_index(const Header& header) {
    const auto [place, is_new] =
        machines_.try_emplace(header.environment_hash, result_.machines.size());
    if (is_new) {
      result_.machines.push_back(machine_of(header));
      result_.machines.back().id = machine_id(place->second);
    }
    if (probed_.insert(&header).second) {
      Machine& machine = result_.machines[place->second];
      add_limits(machine.limits, header.line.at("limits"));
      add_shares(machine.cpu_shares, header.line.at("limits"));
    }
    return place->second;
  }

  void note(Machine& machine, const Row& row) {
    if (std::ranges::find(machine.ledgers, row.header->ledger) == machine.ledgers.end()) {
      machine.ledgers.push_back(row.header->ledger);
    }
    if (const std::string day = row.time.substr(0, 10); !day.empty()) {
      machine.first_day = machine.first_day.empty() ? day : std::min(machine.first_day, day);
      machine.last_day = std::max(machine.last_day, day);
    }
  }

  // The first machine whose result is right, and of those with its processors and GPUs the newest
  // result; there, the most threads, and the newest of what only its data or its memory tell apart.
  // Otherwise the first that has the backend.
  void choose_shown() {
    const auto grade = [](const Measured& cell) {
      return cell.ok() ? 2 : cell.representative().status != "unavailable" ? 1 : 0;
    };
    const auto same_place = [](const Measured& a, const Measured& b) {
      return std::tuple(a.machine, a.threads(), a.gpus(), a.ranks()) ==
             std::tuple(b.machine, b.threads(), b.gpus(), b.ranks());
    };
    // Of as many threads, GPUs and ranks; an older ledger does not say that it was one GPU.
    const auto same_hardware = [this](const Measured& a, const Measured& b) {
      return result_.machines[a.machine].name == result_.machines[b.machine].name &&
             std::tuple(a.threads(), std::max(a.gpus(), 1), a.ranks()) ==
                 std::tuple(b.threads(), std::max(b.gpus(), 1), b.ranks());
    };
    std::map<std::pair<std::string, std::string>, Measured*> best;
    for (Measured& cell : result_.cells) {
      Measured*& known =
          best.try_emplace({cell.name(), cell.identity().definition}, &cell).first->second;
      const bool more_threads =
          cell.ok() && cell.machine == known->machine && cell.threads() > known->threads();
      const bool newer = same_hardware(cell, *known) &&
                         cell.representative().time > known->representative().time;
      if (grade(cell) > grade(*known) ||
          (grade(cell) == grade(*known) && (more_threads || newer || same_place(cell, *known)))) {
        known = &cell;
      }
    }
    for (const auto& [name, cell] : best) {
      cell->shown_first = true;
    }
  }

  std::vector<Row> rows_;
  std::unordered_map<std::size_t, std::size_t> cells_; // by number
  std::unordered_map<std::string, std::size_t> machines_;
  std::unordered_set<const Header*> probed_;
  Measurements result_;
};

} // namespace

std::string machine_id(std::size_t index) {
  return index < 26 ? std::string(1, static_cast<char>('A' + index)) : fmt::format("M{}", index);
}

std::string Machine::days() const {
  return first_day == last_day ? last_day : fmt::format("{} to {}", first_day, last_day);
}

const Row& Measured::representative() const {
  const auto failed = std::ranges::find_if(rounds, [](const Row& row) { return !row.ok(); });
  return failed == rounds.end() ? rounds.back() : *failed;
}

std::optional<double>
Measured::median_of(const std::function<std::optional<double>(const Row&)>& of) const {
  std::vector<double> values;
  for (const Row& row : rounds) {
    const std::optional<double> value = of(row);
    if (!value) {
      return std::nullopt;
    }
    values.push_back(*value);
  }
  return median(values);
}

std::optional<double> Measured::median_of(std::string_view field) const {
  return median_of([&](const Row& row) { return row.number(field); });
}

std::optional<double> Measured::own_ms() const {
  return median_of([](const Row& row) {
    return row.own_start ? std::optional(row.own_start->ms) : std::nullopt;
  });
}

std::optional<double> Measured::own_ms_per_iteration() const {
  return median_of([](const Row& row) {
    return row.own_start
               ? std::optional(row.own_start->ms / std::max(row.own_start->iterations, 1.0))
               : std::nullopt;
  });
}

Rounds Measured::runs_ms() const {
  Rounds rounds_ms;
  for (const Row& row : rounds) {
    if (row.samples_ms.empty()) {
      return {};
    }
    rounds_ms.push_back(row.samples_ms);
  }
  return rounds_ms;
}

ProblemIdentity Measured::identity() const {
  ProblemIdentity all = rounds.front().identity;
  for (const Row& row : rounds) {
    all.learn(row.identity);
  }
  return all;
}

std::string unlike_namesake(const std::vector<Machine>& machines, std::size_t index) {
  const Machine& machine = machines.at(index);
  const auto namesake = std::ranges::find(machines, machine.name, &Machine::name);
  if (namesake - machines.begin() == static_cast<std::ptrdiff_t>(index)) {
    return "";
  }
  const auto differences = environment_differences(namesake->comparable, machine.comparable);
  return differences.empty()
             ? fmt::format("as {}, as far as ledgers of different age tell", namesake->id)
             : fmt::format("as {}, but {}", namesake->id, listed(differences));
}

std::vector<Row> rows_that_count(std::vector<Row> rows) {
  std::vector<Row> counting;
  for (CountingRow& each : counting_rows(std::move(rows))) {
    counting.push_back(std::move(each.row));
  }
  return counting;
}

Measurements measurements_of(std::vector<Row> rows, const std::string& table) {
  if (!table.empty()) {
    std::erase_if(rows, [&](const Row& row) { return row.table != table; });
  }
  return Builder(std::move(rows)).build();
}

Measurements read_measurements(const std::vector<std::string>& ledgers, const std::string& table) {
  std::vector<Row> rows;
  std::vector<std::string> edited;
  for (const std::string& ledger : ledgers_of(ledgers)) {
    LedgerContent content = read_ledger(ledger);
    if (!content.edited.empty()) {
      edited.push_back(content.edited);
    }
    std::ranges::move(content.rows, std::back_inserter(rows));
  }
  Measurements measurements = measurements_of(std::move(rows), table);
  measurements.edited = std::move(edited);
  return measurements;
}

} // namespace clusterbench

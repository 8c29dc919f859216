#include "harness/problem/cell_choice.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fnmatch.h>
#include <set>
#include <sstream>

namespace clusterbench {
namespace {

using datasets::InputError;

bool runs_on_the_cpu(const CellSpec& cell) {
  const RegisteredVariant* variant = find_variant(cell.variant);
  return variant != nullptr && variant->meta.device == Device::cpu &&
         variant->meta.launch == Launch::process;
}

// "table/problem/variant/precision" with a problem of the table and any known variant.
std::vector<CellSpec> spelled_out(const std::string& word, const std::vector<Table>& tables) {
  std::vector<std::string> parts;
  std::istringstream stream(word);
  for (std::string part; std::getline(stream, part, '/');) {
    parts.push_back(part);
  }
  if (parts.size() != 4 || find_variant(parts[2]) == nullptr) {
    return {};
  }
  for (const Table& table : tables) {
    for (const auto& [id, problem] : table.problems) {
      if (table.name == parts[0] && id == parts[1]) {
        return {{table.name, id, problem, parse_precision(parts[3]), parts[2]}};
      }
    }
  }
  return {};
}

} // namespace

std::string cell_name(const CellSpec& cell) {
  return fmt::format("{}/{}/{}/{}", cell.table, cell.problem_id, cell.variant,
                     to_string(cell.precision));
}

std::vector<CellSpec> choose_cells(const std::vector<std::string>& words, bool quick) {
  std::vector<Table> tables;
  for (const std::string& name : table_names()) {
    tables.push_back(load_table(name, quick));
  }
  std::vector<CellSpec> chosen;
  std::set<std::string> names;
  const auto take = [&](const CellSpec& cell) {
    if (names.insert(cell_name(cell)).second) {
      chosen.push_back(cell);
    }
  };
  if (words.empty()) {
    for (const Table& table : tables) {
      if (table.name.starts_with("article")) {
        std::ranges::for_each(table.cells, [&](const CellSpec& cell) {
          if (runs_on_the_cpu(cell)) {
            take(cell);
          }
        });
      }
    }
    return chosen;
  }
  std::vector<std::string> known;
  for (const std::string& word : words) {
    bool found = false;
    for (const Table& table : tables) {
      known.push_back(table.name);
      for (const CellSpec& cell : table.cells) {
        known.push_back(cell_name(cell));
        if (table.name == word ? runs_on_the_cpu(cell)
                               : fnmatch(word.c_str(), cell_name(cell).c_str(), 0) == 0) {
          take(cell);
          found = true;
        }
      }
    }
    for (const CellSpec& cell : found ? std::vector<CellSpec>{} : spelled_out(word, tables)) {
      take(cell);
      found = true;
    }
    if (!found) {
      throw InputError(fmt::format("no cell is named \"{}\"; did you mean {}?", word,
                                   datasets::nearest(word, known)));
    }
  }
  return chosen;
}

} // namespace clusterbench

#include "harness/problem/cell_choice.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <iterator>
#include <set>

namespace clusterbench {
namespace {

using datasets::InputError;

// Why two builds' runs of the cell cannot be compared; empty if they can.
std::string obstacle(const CellSpec& cell) {
  const KnownVariant* variant = find_variant(cell.variant);
  if (variant == nullptr) {
    return "this build has no " + cell.variant;
  }
  if (variant->is_program) {
    return cell.variant + " is a program of its own, no part of a build";
  }
  if (has_ranks(variant->meta.device)) { // whose threads are not given processors by turns
    return cell.variant + " is several processes, and two builds of it are not compared";
  }
  if (variant->meta.family != cell.problem.family) {
    return fmt::format("{} is a variant of {}", cell.variant, to_string(variant->meta.family));
  }
  if (!supports(*variant, cell.precision)) {
    return fmt::format("{} has no {}", cell.variant, to_string(cell.precision));
  }
  return {};
}

std::string obstacle_on_the_cpu(const CellSpec& cell) {
  const std::string any = obstacle(cell);
  if (!any.empty() || find_variant(cell.variant)->meta.device == Device::cpu) {
    return any;
  }
  return fmt::format("a table's name stands for its cells on the CPU, '{}/*' for all", cell.table);
}

// The registered variants on the tables' problems, whether a table has a row for them or not.
std::vector<CellSpec> cells_beside(const std::vector<Table>& tables) {
  std::vector<CellSpec> cells;
  for (const Table& table : tables) {
    for (const auto& [id, problem] : table.problems) {
      for (const KnownVariant* variant : all_variants()) {
        for (const Precision precision : {Precision::f32, Precision::f64}) {
          cells.push_back({table.name, id, problem, precision, variant->meta.name});
        }
      }
    }
  }
  return cells;
}

} // namespace

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
      for (const CellSpec& cell : table.cells) {
        if (table.name.starts_with("article") && obstacle_on_the_cpu(cell).empty()) {
          take(cell);
        }
      }
    }
    if (chosen.empty()) {
      throw InputError(fmt::format("{}: no table article* has a cell of a CPU variant",
                                   tables_folder().string()));
    }
    return chosen;
  }
  for (const std::string& word : words) {
    bool found = false;
    std::string why_not; // the first cell named, and what keeps it from being taken
    const auto offer = [&](const CellSpec& cell, const std::string& reason) {
      if (reason.empty()) {
        take(cell);
        found = true;
      } else if (why_not.empty()) {
        why_not = fmt::format("{}: {}", cell_name(cell), reason);
      }
    };
    const auto named = [&](const CellSpec& cell) {
      return fnmatch(word.c_str(), cell_name(cell).c_str(), 0) == 0;
    };
    for (const Table& table : tables) {
      for (const CellSpec& cell : table.cells) {
        if (table.name == word) {
          offer(cell, obstacle_on_the_cpu(cell));
        } else if (named(cell)) {
          offer(cell, obstacle(cell));
        }
      }
    }
    if (found) {
      continue;
    }
    const std::vector<CellSpec> beside = cells_beside(tables);
    if (why_not.empty()) {
      for (const CellSpec& cell : beside) {
        if (named(cell)) {
          offer(cell, obstacle(cell));
        }
      }
    }
    if (!found && !why_not.empty()) {
      throw InputError(fmt::format(
          "\"{}\" names no cell that this build can compare; the first is {}", word, why_not));
    }
    if (!found) {
      std::vector<std::string> known;
      for (const Table& table : tables) {
        known.push_back(table.name);
        std::ranges::transform(table.cells, std::back_inserter(known), cell_name);
      }
      for (const CellSpec& cell : beside) {
        if (obstacle(cell).empty()) {
          known.push_back(cell_name(cell));
        }
      }
      throw InputError(fmt::format("no cell is named \"{}\"; did you mean {}?", word,
                                   datasets::nearest(word, known)));
    }
  }
  return chosen;
}

void take_in_variants(std::vector<Table>& tables, const std::vector<std::string>& globs,
                      const std::vector<Precision>& wanted) {
  for (const std::string& glob : globs) {
    const auto fits = [&](const std::string& name) {
      return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    };
    if (std::ranges::any_of(tables, [&](const Table& table) {
          return std::ranges::any_of(table.cells, fits, &CellSpec::variant);
        })) {
      continue;
    }
    for (const KnownVariant* variant : match_variants({glob})) {
      std::vector<Precision> precisions = wanted;
      if (precisions.empty()) {
        precisions = {supports(*variant, Precision::f32) ? Precision::f32 : Precision::f64};
      }
      for (Table& table : tables) {
        for (const auto& [id, problem] : table.problems) {
          for (const Precision precision : precisions) {
            if (variant->meta.family == problem.family && supports(*variant, precision)) {
              table.cells.push_back({table.name, id, problem, precision, variant->meta.name});
            }
          }
        }
      }
    }
  }
}

std::string why_no_cell_fits(const std::vector<Table>& tables,
                             const std::vector<std::string>& globs,
                             const std::vector<Precision>& wanted) {
  std::set<std::string> families, variants;
  for (const Table& table : tables) {
    for (const auto& [id, problem] : table.problems) {
      families.emplace(to_string(problem.family));
    }
    for (const CellSpec& cell : table.cells) {
      variants.insert(cell.variant);
    }
  }
  std::vector<std::string> reasons;
  for (const KnownVariant* variant :
       globs.empty() ? std::vector<const KnownVariant*>{} : match_variants(globs)) {
    const std::string family(to_string(variant->meta.family));
    if (!families.contains(family)) {
      reasons.push_back(fmt::format("{} is a variant of {}, and the problems are of {}",
                                    variant->meta.name, family, fmt::join(families, " and ")));
      continue;
    }
    for (const Precision precision : wanted) {
      reasons.push_back(
          fmt::format("{} has no cell in {}", variant->meta.name, to_string(precision)));
    }
  }
  constexpr std::size_t kMost = 4;
  const std::size_t more = reasons.size() > kMost ? reasons.size() - kMost : 0;
  reasons.resize(reasons.size() - more);
  return fmt::format("{}{}; rows of the tables: {}", fmt::join(reasons, "; "),
                     more > 0 ? fmt::format("; and so on for {} more", more) : "",
                     fmt::join(variants, ", "));
}

} // namespace clusterbench

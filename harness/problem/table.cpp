#include "harness/problem/table.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/system/files.hpp"
#include "harness/system/json_words.hpp"
#include "harness/system/process.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;
namespace fs = std::filesystem;

fs::path search_upwards(fs::path folder) {
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    if (fs::is_directory(folder / "results" / "tables")) {
      return folder / "results" / "tables";
    }
  }
  return {};
}

// A problem or a row, with the keys that its `quick` replaces.
json in_size(json definition, bool quick) {
  if (quick && definition.contains("quick")) {
    const json replacements = definition.at("quick");
    definition.update(replacements);
  }
  return definition;
}

// The library reads -1 as the largest unsigned number, and 2.5 as 2.
std::size_t count_from(const json& definition, const char* key, std::size_t least) {
  const json& value = definition.at(key);
  if (!value.is_number_unsigned() || value.get<std::size_t>() < least) {
    throw InputError(
        fmt::format("\"{}\": {} is no whole number of at least {}", key, value.dump(), least));
  }
  return value;
}

ProblemSpec problem_from(const json& definition) {
  ProblemSpec spec;
  spec.family = parse_family(definition.value("family", "kmeans"));
  spec.data = definition.at("data");
  spec.take = definition.contains("take") ? count_from(definition, "take", 0) : 0;
  spec.k = count_from(definition, "k", 1);
  spec.init = parse_init(definition.at("init").get<std::string>());
  spec.stop = parse_stop(definition.at("stop").get<std::string>(),
                         count_from(definition, "max_iterations", 1));
  spec.fuzzifier = definition.value("fuzzifier", 2.0);
  return spec;
}

Table table_from(const json& definition, bool quick, const std::string& file) {
  Table table;
  table.name = definition.at("name");
  check_printable(table.name, "the table");
  table.title = definition.at("title");
  check_printable(table.title, "the title");
  table.source = definition.at("source");
  check_printable(table.source, "the source");
  table.notes = definition.value("notes", std::vector<std::string>{});
  for (const json& problem : definition.at("problems")) {
    const std::string id = problem.at("id");
    check_printable(id, "the problem");
    try {
      table.problems.emplace_back(id, problem_from(in_size(problem, quick)));
    } catch (const InputError& error) {
      throw InputError(fmt::format("problem {}: {}", id, error.what()));
    }
  }
  for (const json& every_size : definition.at("rows")) {
    const json row = in_size(every_size, quick);
    for (const std::string id : row.at("problems")) {
      const auto problem =
          std::ranges::find(table.problems, id, &std::pair<std::string, ProblemSpec>::first);
      if (problem == table.problems.end()) {
        throw InputError(fmt::format("row {}: unknown problem \"{}\"",
                                     row.at("variant").get<std::string>(), id));
      }
      for (const std::string precision : row.at("precisions")) {
        table.cells.push_back(
            {table.name, id, problem->second, parse_precision(precision), row.at("variant"), file});
      }
    }
  }
  return table;
}

} // namespace

std::string cell_name(const CellSpec& cell) {
  return fmt::format("{}/{}/{}/{}", cell.table, cell.problem_id, cell.variant,
                     to_string(cell.precision));
}

fs::path tables_folder() {
  if (const char* folder = std::getenv("CLUSTERBENCH_TABLES")) {
    std::error_code none; // also where it may not be looked at
    if (!fs::is_directory(folder, none)) {
      throw InputError(fmt::format("CLUSTERBENCH_TABLES: \"{}\" is no folder", folder));
    }
    return folder;
  }
  for (const fs::path& start : {fs::current_path(), fs::path(own_path()).parent_path()}) {
    if (const fs::path found = search_upwards(start); !found.empty()) {
      return found;
    }
  }
  throw InputError("results/tables was found neither above the working folder nor above the "
                   "program; set CLUSTERBENCH_TABLES");
}

std::vector<std::string> table_names() {
  const fs::path folder = tables_folder();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".json") {
      names.push_back(entry->path().stem().string());
    }
  }
  if (error) {
    throw InputError(fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::ranges::sort(names);
  return names;
}

Table load_table(const std::string& name, bool quick) {
  const auto names = table_names();
  if (std::ranges::find(names, name) == names.end()) {
    throw InputError(fmt::format("unknown table \"{}\"; did you mean {}?", name,
                                 datasets::nearest(name, names)));
  }
  return load_table_file(tables_folder() / (name + ".json"), quick);
}

Table load_table_file(const fs::path& path, bool quick) {
  const json definition = read_json_file(path);
  if (!definition.is_object()) {
    throw InputError(fmt::format("{}: it is no table: an object is needed", path.string()));
  }
  try {
    return table_from(definition, quick, path.string());
  } catch (const json::exception& error) {
    throw InputError(fmt::format("{}: {}", path.string(), words_of(error)));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

} // namespace clusterbench

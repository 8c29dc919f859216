#include "harness/problem/table.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/run/files.hpp"
#include "harness/run/process.hpp"

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

ProblemSpec problem_from(const json& definition) {
  ProblemSpec spec;
  spec.family = parse_family(definition.value("family", "kmeans"));
  spec.data = definition.at("data");
  spec.take = definition.value("take", std::size_t{0});
  spec.k = definition.at("k");
  spec.init = parse_init(definition.at("init").get<std::string>());
  spec.stop = parse_stop(definition.at("stop").get<std::string>(), definition.at("max_iterations"));
  spec.fuzzifier = definition.value("fuzzifier", 2.0);
  return spec;
}

Table table_from(const json& definition, bool quick) {
  Table table;
  table.name = definition.at("name");
  table.title = definition.at("title");
  table.source = definition.at("source");
  table.notes = definition.value("notes", std::vector<std::string>{});
  for (const json& problem : definition.at("problems")) {
    table.problems.emplace_back(problem.at("id"), problem_from(in_size(problem, quick)));
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
            {table.name, id, problem->second, parse_precision(precision), row.at("variant")});
      }
    }
  }
  return table;
}

} // namespace

fs::path tables_folder() {
  if (const char* folder = std::getenv("CLUSTERBENCH_TABLES")) {
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
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(tables_folder())) {
    if (entry.path().extension() == ".json") {
      names.push_back(entry.path().stem().string());
    }
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
  const fs::path path = tables_folder() / (name + ".json");
  try {
    return table_from(read_json_file(path), quick);
  } catch (const json::exception& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

} // namespace clusterbench

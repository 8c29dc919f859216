// Table definitions: the list of cells that reproduces one published table.
#pragma once

#include "harness/problem/problem_spec.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace clusterbench {

/// One cell of a campaign, before its data are loaded.
struct CellSpec {
  std::string table;      ///< name of its table, or "adhoc"
  std::string problem_id; ///< name of the problem within the table
  ProblemSpec problem;
  Precision precision = Precision::f32;
  std::string variant;
  std::string file = {}; ///< that defines its table; empty if none does
};

/// table/problem/variant/precision, the name of a cell in ledgers and reports.
std::string cell_name(const CellSpec& cell);

struct Table {
  std::string name;
  std::string title;
  std::string source;
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, ProblemSpec>> problems; ///< by id, in the order of the file
  std::vector<CellSpec> cells; ///< in the order of the file; variants not built here included
};

/// The folder results/tables, searched upwards from the working folder and from the program.
/// $CLUSTERBENCH_TABLES overrides it. Throws datasets::InputError if there is none, or if that
/// variable names none.
std::filesystem::path tables_folder();

/// Names of all tables, sorted.
std::vector<std::string> table_names();

/// Reads a table; `quick` takes the smaller sizes and fewer cells that the file states for a
/// fast pass.
/// Throws datasets::InputError naming file and field, and for unknown names the nearest one.
Table load_table(const std::string& name, bool quick);
/// The same of a file in that form.
Table load_table_file(const std::filesystem::path& path, bool quick);

} // namespace clusterbench

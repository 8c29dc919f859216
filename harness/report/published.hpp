// What an article printed: the rows of its table, in its order, with their printed values.
#pragma once

#include "harness/problem/table.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// What printed speed-ups are made of: whole runs, or single iterations where the rows of the
/// article executed different numbers of them.
enum class SpeedupOf { run, iteration };

/// One value that the article printed, with the cell of ours that stands for it.
struct PrintedCell {
  std::string label;   ///< the row's name in the article
  std::string key;     ///< where the value stands in published.json, such as "seconds.cpp"
  std::string column;  ///< the table's problem that stands for the article's column
  std::string problem; ///< the one that the row's cell is of, if it needs another stop rule
  std::string variant;
  std::string precision;
  double ms = 0.0;                  ///< as printed, in milliseconds
  std::optional<double> iterations; ///< where the article's output tells them
  double factor = 2.0;              ///< within which the speed-up must be
  std::string factor_reason;        ///< never empty if the factor is not 2
  std::string wrong;                ///< why the published program is wrong; empty if it is not
  std::string other_work;           ///< why its time is of other work than the row's; or empty
};

struct Published {
  std::string article; ///< file name of the source
  std::string title;
  std::string hardware;
  std::string baseline; ///< label of the row that speed-ups are taken over
  std::string baseline_reason;
  SpeedupOf speedup_of = SpeedupOf::run;
  std::string speedup_reason;
  std::vector<PrintedCell> cells; ///< problem by problem, each in the article's order
};

/// The published part of a table's definition, its keys looked up in results/published.json beside
/// the folder of tables; empty if the article prints no times. Throws datasets::InputError naming
/// the file and the key for anything missing or malformed.
std::optional<Published> load_published(const Table& table);

/// As load_published(), but empty for a table's smaller sizes: the article printed none of them.
inline std::optional<Published> published_part(const Table& table, bool quick) {
  return quick ? std::nullopt : load_published(table);
}

} // namespace clusterbench

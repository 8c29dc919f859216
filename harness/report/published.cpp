#include "harness/report/published.hpp"

#include "datasets/errors.hpp"
#include "harness/system/files.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>
#include <sstream>

namespace clusterbench {
namespace {

using datasets::InputError;
using nlohmann::json;

constexpr double kDefaultFactor = 2.0;

// Reads the fields of one object and names file and place of whatever is wrong with them.
class Fields {
public:
  Fields(const json& object, std::string place, const std::set<std::string>& known)
      : object_(object), place_(std::move(place)) {
    if (!object.is_object()) {
      throw InputError(place_ + ": must be an object");
    }
    for (const auto& [key, value] : object.items()) {
      if (!known.contains(key)) {
        throw InputError(fmt::format("{}: unknown key \"{}\"", place_, key));
      }
    }
  }

  std::string text(const char* key) const {
    const std::string value = text_or_empty(key);
    if (value.empty()) {
      throw InputError(fmt::format("{}: \"{}\" is missing", place_, key));
    }
    return value;
  }

  std::string text_or_empty(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) {
      return {};
    }
    if (!found->is_string() || found->get_ref<const std::string&>().empty()) {
      throw InputError(fmt::format("{}: \"{}\" must be a text", place_, key));
    }
    return *found;
  }

  double positive(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_number() || !(found->get<double>() > 0.0)) {
      throw InputError(fmt::format("{}: \"{}\" must be a positive number", place_, key));
    }
    return *found;
  }

  const json& list(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_array() || found->empty()) {
      throw InputError(fmt::format("{}: \"{}\" must be a list that is not empty", place_, key));
    }
    return *found;
  }

  bool has(const char* key) const { return object_.contains(key); }
  const std::string& place() const { return place_; }

private:
  const json& object_;
  std::string place_;
};

// The published figures of one article.
class Source {
public:
  Source(const std::filesystem::path& file, const std::string& article, const std::string& asked_by)
      : place_(fmt::format("{}: {}", file.string(), article)) {
    const json all = read_json_file(file);
    const auto articles = all.find("articles");
    if (articles == all.end() || !articles->contains(article)) {
      throw InputError(
          fmt::format("{}: {} has no article \"{}\"", asked_by, file.string(), article));
    }
    article_ = articles->at(article);
  }

  std::string text(const char* key) const { return article_.value(key, ""); }

  // The value at a dotted key. `asked_by` is named beside this file.
  const json& at(const std::string& key, const std::string& asked_by) const {
    const json* value = &article_;
    std::istringstream parts(key);
    for (std::string part; std::getline(parts, part, '.');) {
      if (!value->is_object() || !value->contains(part)) {
        throw InputError(fmt::format("{}: there is no \"{}\" in {}", asked_by, key, place_));
      }
      value = &value->at(part);
    }
    return *value;
  }

  // Index of a named column; 0 where the article has but one.
  std::size_t column(const std::string& name, const std::string& asked_by) const {
    const auto columns = article_.find("columns");
    if (columns == article_.end() && name.empty()) {
      return 0;
    }
    if (columns != article_.end() && columns->is_array()) {
      const auto found = std::ranges::find(*columns, json(name));
      if (found != columns->end()) {
        return static_cast<std::size_t>(found - columns->begin());
      }
    }
    throw InputError(fmt::format("{}: there is no column \"{}\" in {}", asked_by, name, place_));
  }

  double number(const std::string& key, std::size_t column, const std::string& asked_by) const {
    const json& value = at(key, asked_by);
    const bool is_list = value.is_array() && column < value.size();
    const json& cell = is_list ? value.at(column) : value;
    if (!cell.is_number() || !(cell.get<double>() > 0.0)) {
      throw InputError(
          fmt::format("{}: \"{}\" in {} is not a positive number", asked_by, key, place_));
    }
    return cell;
  }

private:
  std::string place_;
  json article_;
};

double in_milliseconds(double value, const std::string& key, const std::string& asked_by) {
  if (key.starts_with("seconds.")) {
    return value * 1e3;
  }
  if (key.starts_with("milliseconds.")) {
    return value;
  }
  throw InputError(
      fmt::format("{}: \"{}\" must begin with seconds. or milliseconds.", asked_by, key));
}

// Passes are a number of their own, or as many as the article printed lines of a trace.
std::optional<double> passes(const Fields& row, const Source& source) {
  if (const std::string key = row.text_or_empty("passes"); !key.empty()) {
    return source.number(key, 0, row.place());
  }
  if (const std::string key = row.text_or_empty("passes_of_trace"); !key.empty()) {
    const json& trace = source.at(key, row.place());
    if (!trace.is_array() || trace.empty()) {
      throw InputError(fmt::format("{}: \"{}\" is no trace", row.place(), key));
    }
    return static_cast<double>(trace.size());
  }
  return std::nullopt;
}

PrintedCell printed_row(const json& definition, const std::string& place, const Source& source) {
  const Fields row(definition, place,
                   {"label", "key", "problem", "variant", "precision", "passes", "passes_of_trace",
                    "factor", "factor_reason", "wrong", "other_work"});
  PrintedCell cell;
  cell.label = row.text("label");
  cell.key = row.text("key");
  cell.problem = row.text_or_empty("problem");
  cell.variant = row.text("variant");
  cell.precision = row.text("precision");
  cell.iterations = passes(row, source);
  cell.factor = row.has("factor") ? row.positive("factor") : kDefaultFactor;
  cell.factor_reason = row.text_or_empty("factor_reason");
  cell.wrong = row.text_or_empty("wrong");
  cell.other_work = row.text_or_empty("other_work");
  if (!(cell.factor >= 1.0)) {
    throw InputError(place + ": \"factor\" must be at least 1");
  }
  if (row.has("factor") != row.has("factor_reason")) {
    throw InputError(place + ": \"factor\" and \"factor_reason\" belong together");
  }
  return cell;
}

bool is_cell_of(const Table& table, const PrintedCell& printed) {
  return std::ranges::any_of(table.cells, [&](const CellSpec& cell) {
    return cell.problem_id == printed.problem && cell.variant == printed.variant &&
           to_string(cell.precision) == printed.precision;
  });
}

} // namespace

std::optional<Published> load_published(const Table& table) {
  const auto folder = tables_folder();
  const std::string file = (folder / (table.name + ".json")).string();
  const json definition = read_json_file(file);
  if (!definition.contains("published")) {
    return std::nullopt;
  }
  const Fields fields(definition.at("published"), file + ": published",
                      {"article", "baseline", "baseline_reason", "speedup_of", "speedup_reason",
                       "columns", "rows"});
  Published published;
  published.article = fields.text("article");
  const Source source(folder.parent_path() / "published.json", published.article, fields.place());
  published.title = source.text("title");
  published.hardware = source.text("hardware");
  published.baseline = fields.text("baseline");
  published.baseline_reason = fields.text("baseline_reason");
  const std::string speedup_of = fields.text("speedup_of");
  if (speedup_of != "run" && speedup_of != "iteration") {
    throw InputError(fields.place() + ": \"speedup_of\" must be \"run\" or \"iteration\"");
  }
  published.speedup_of = speedup_of == "run" ? SpeedupOf::run : SpeedupOf::iteration;
  published.speedup_reason = fields.text("speedup_reason");

  for (const json& column_definition : fields.list("columns")) {
    const Fields column(column_definition, fields.place() + ": columns", {"problem", "column"});
    const std::size_t index = source.column(column.text_or_empty("column"), column.place());
    std::size_t number = 0;
    bool has_baseline = false;
    for (const json& row : fields.list("rows")) {
      const std::string place = fmt::format("{}: row {}", fields.place(), ++number);
      PrintedCell cell = printed_row(row, place, source);
      cell.column = column.text("problem");
      if (cell.problem.empty()) {
        cell.problem = cell.column;
      } else if (published.speedup_of == SpeedupOf::run) {
        throw InputError(place + ": \"problem\" is other work, and speed-ups are of runs");
      }
      cell.ms = in_milliseconds(source.number(cell.key, index, place), cell.key, place);
      if (!is_cell_of(table, cell)) {
        throw InputError(fmt::format("{}: {} in {} on \"{}\" is no cell of the table", place,
                                     cell.variant, cell.precision, cell.problem));
      }
      if (published.speedup_of == SpeedupOf::iteration && !cell.iterations) {
        throw InputError(place + ": speed-ups are of iterations, but \"passes\" is missing");
      }
      has_baseline |= cell.label == published.baseline;
      published.cells.push_back(std::move(cell));
    }
    if (!has_baseline) {
      throw InputError(fmt::format("{}: no row is labelled \"{}\", the baseline", fields.place(),
                                   published.baseline));
    }
  }
  return published;
}

} // namespace clusterbench

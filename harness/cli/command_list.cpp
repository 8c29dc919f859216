#include "datasets/catalog.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/machine/backends.hpp"
#include "harness/problem/programs.hpp"
#include "harness/problem/table.hpp"
#include "harness/report/text_table.hpp"
#include "harness/report/variant_text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace clusterbench {
namespace {

using nlohmann::json;

constexpr std::size_t kNameWidth = 30;

json variant_json(const KnownVariant& variant) {
  const Meta& meta = variant.meta;
  json precisions = json::array();
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    if (supports(variant, precision)) {
      precisions.push_back(to_string(precision));
    }
  }
  json entry = {
      {"name", meta.name},
      {"idea", meta.idea},
      {"source", meta.source},
      {"family", to_string(meta.family)},
      {"device", to_string(meta.device)},
      {"backend", variant.backend},
      {"precisions", precisions},
      {"arithmetic", to_string(meta.arithmetic)},
      {"multiplier", to_string(meta.multiplier)},
      {"distance", meta.distance == DistanceForm::difference ? "difference" : "expanded"},
      {"labels", meta.labels == LabelsFrom::entering_centroids ? "before update" : "after update"},
      {"deterministic", meta.deterministic},
      {"reseeds_empty", meta.reseeds_empty},
      {"takes_weights", meta.takes_weights},
      {"previous", meta.previous},
      {"unavailable", unavailable_reason(variant)}};
  entry["d"] = {{"min", meta.min_d}, {"max", nullptr}};
  entry["k"] = {{"max", nullptr}};
  if (meta.max_d != std::numeric_limits<std::size_t>::max()) {
    entry["d"]["max"] = meta.max_d;
  }
  if (meta.max_k != std::numeric_limits<std::size_t>::max()) {
    entry["k"]["max"] = meta.max_k;
  }
  return entry;
}

json list_json() {
  json list = {{"variants", json::array()},
               {"tables", json::array()},
               {"datasets", json::array()},
               {"backends", json::array()}};
  for (const KnownVariant* variant : all_variants()) {
    list["variants"].push_back(variant_json(*variant));
  }
  for (const std::string& name : table_names()) {
    const Table table = load_table(name, /*quick=*/false);
    list["tables"].push_back({{"name", table.name},
                              {"title", table.title},
                              {"source", table.source},
                              {"cells", table.cells.size()}});
  }
  for (const datasets::CatalogEntry& entry : datasets::catalog()) {
    list["datasets"].push_back({{"name", entry.name},
                                {"description", entry.description},
                                {"source", entry.source},
                                {"rows", entry.rows},
                                {"columns", entry.cols}});
  }
  for (const Backend& backend : backends()) {
    json names = json::array();
    std::istringstream files{std::string(backend.missing_files)};
    for (std::string name; files >> name;) {
      names.push_back(name);
    }
    list["backends"].push_back({{"name", backend.name},
                                {"built", backend.missing_reason.empty()},
                                {"reason", backend.missing_reason},
                                {"not_built", names}});
  }
  return list;
}

std::string text_of(const json& entry, const char* field) {
  return entry.at(field).get<std::string>();
}

// One entry: its name, what it is, and where that is long further lines.
std::string entry_line(const std::string& name, std::size_t width, const std::string& what,
                       Paint paint, TextStyle style) {
  const std::string line = fmt::format("{:<{}} {}", name, width, what);
  const std::string lines = wrapped(escaped(line, TextStyle::terminal), "  ");
  return painted(lines.substr(0, lines.size() - 1), paint, style) + "\n";
}

// Variants that this build lacks, with what their files say of them, if the files are there.
std::string missing_variants(const json& list, TextStyle style) {
  const std::filesystem::path sources = find_source_tree("");
  std::string text;
  for (const json& backend : list.at("backends")) {
    for (const json& name : backend.at("not_built")) {
      const std::optional<VariantText> known = find_variant_text(name, sources);
      text += entry_line(name, kNameWidth,
                         fmt::format("{:<8} not built here{}", text_of(backend, "name"),
                                     known ? ": " + known->idea : ""),
                         Paint::refused, style);
    }
  }
  return text;
}

// Built variants; why some cannot run is said once, for all of them.
void print_variants(const json& list, TextStyle style) {
  std::vector<std::pair<std::string, std::size_t>> reasons; // and of how many variants
  for (const json& variant : list.at("variants")) {
    const std::string unavailable = variant.at("unavailable");
    std::string mark;
    if (!unavailable.empty()) {
      auto reason =
          std::ranges::find(reasons, unavailable, [](const auto& one) { return one.first; });
      if (reason == reasons.end()) {
        reason = reasons.insert(reason, {unavailable, 0});
      }
      ++reason->second;
      mark = fmt::format("[not here: {}] ", reason - reasons.begin() + 1);
    }
    fmt::print("{}", entry_line(variant.at("name"), kNameWidth,
                                fmt::format("{:<8} {}{}", text_of(variant, "backend"), mark,
                                            text_of(variant, "idea")),
                                mark.empty() ? Paint::plain : Paint::refused, style));
  }
  fmt::print("{}", missing_variants(list, style));
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    const auto& [reason, variants] = reasons[i];
    fmt::print(
        "{}{}", i == 0 ? "\nNot here\n" : "",
        entry_line(fmt::to_string(i + 1), 1,
                   fmt::format("{} ({} variant{})", reason, variants, variants == 1 ? "" : "s"),
                   Paint::refused, style));
  }
}

void print_text(const json& list, TextStyle style) {
  fmt::print("Variants\n");
  print_variants(list, style);
  fmt::print("\nTables\n");
  for (const json& table : list.at("tables")) {
    fmt::print("{}", entry_line(table.at("name"), kNameWidth,
                                fmt::format("{} cells: {}", table.at("cells").get<std::size_t>(),
                                            text_of(table, "title")),
                                Paint::plain, style));
  }
  fmt::print("\nDatasets\n");
  for (const json& dataset : list.at("datasets")) {
    fmt::print("{}",
               entry_line(dataset.at("name"), 38, dataset.at("description"), Paint::plain, style));
  }
  fmt::print("\nBackends\n");
  std::size_t built = 0, missing = 0;
  for (const json& backend : list.at("backends")) {
    const std::string reason = backend.at("reason");
    const std::size_t count = backend.at("not_built").size();
    missing += count;
    fmt::print("{}", entry_line(backend.at("name"), kNameWidth,
                                reason.empty()
                                    ? "built"
                                    : fmt::format("not built: {} ({} variants)", reason, count),
                                reason.empty() ? Paint::plain : Paint::refused, style));
  }
  for (const json& variant : list.at("variants")) {
    built += text_of(variant, "unavailable").empty() ? 1 : 0;
  }
  fmt::print("\n{} variants can run here, {} cannot; `explain NAME` compares a variant with the "
             "one before it.\n",
             built, list.at("variants").size() - built + missing);
}

} // namespace

void add_list_command(CLI::App& app, Action& action) {
  const auto as_json = std::make_shared<bool>(false);
  const auto peers = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("list", "Variants, tables, datasets, backends and why one is missing");
  command->add_flag("--json", *as_json, "Machine-readable");
  command->add_option("--peer", *peers,
                      "Program that holds variants, see docs/peers.md (repeatable)");
  command->callback([&action, as_json, peers] {
    action = [as_json, peers] {
      std::ranges::for_each(*peers, add_program);
      const json list = list_json();
      if (*as_json) {
        fmt::print("{}\n", list.dump(2));
      } else {
        print_text(list, text_style(false));
      }
      return ExitCode::ok;
    };
  });
}

} // namespace clusterbench

#include "datasets/catalog.hpp"
#include "harness/cli/commands.hpp"
#include "harness/machine/backends.hpp"
#include "harness/problem/programs.hpp"
#include "harness/problem/table.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

using nlohmann::json;

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
      {"previous_rung", meta.previous},
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
    list["backends"].push_back({{"name", backend.name},
                                {"built", backend.missing_reason.empty()},
                                {"reason", backend.missing_reason}});
  }
  return list;
}

void print_text(const json& list) {
  fmt::print("Variants\n");
  for (const json& variant : list.at("variants")) {
    const std::string unavailable = variant.at("unavailable");
    fmt::print("  {:<30} {:<8} {}{}\n", variant.at("name").get<std::string>(),
               variant.at("backend").get<std::string>(), variant.at("idea").get<std::string>(),
               unavailable.empty() ? "" : fmt::format(" [cannot run here: {}]", unavailable));
  }
  fmt::print("\nTables\n");
  for (const json& table : list.at("tables")) {
    fmt::print("  {:<30} {} cells: {}\n", table.at("name").get<std::string>(),
               table.at("cells").get<std::size_t>(), table.at("title").get<std::string>());
  }
  fmt::print("\nDatasets\n");
  for (const json& dataset : list.at("datasets")) {
    fmt::print("  {:<38} {}\n", dataset.at("name").get<std::string>(),
               dataset.at("description").get<std::string>());
  }
  fmt::print("\nBackends\n");
  for (const json& backend : list.at("backends")) {
    const std::string reason = backend.at("reason");
    fmt::print("  {:<30} {}\n", backend.at("name").get<std::string>(),
               reason.empty() ? "built" : "not built: " + reason);
  }
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
        print_text(list);
      }
      return ExitCode::ok;
    };
  });
}

} // namespace clusterbench

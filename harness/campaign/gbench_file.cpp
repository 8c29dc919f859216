#include "harness/campaign/gbench_file.hpp"

#include "harness/system/files.hpp"

#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace clusterbench {
namespace {

using nlohmann::json;

// What of a cell its name does not tell, for our own reader.
json cell_json(const Row& row) {
  json cell = {{"name", row.name}, {"threads", row.threads}};
  for (const auto& [key, number] : {std::pair{"gpus", row.gpus}, std::pair{"ranks", row.ranks}}) {
    if (number > 1) {
      cell[key] = number;
    }
  }
  cell["definition"] = row.identity.definition;
  cell["hash"] = row.identity.hash;
  if (row.identity.limits) {
    cell["limits"] = *row.identity.limits;
  }
  return cell;
}

} // namespace

// Those tools know cells by name alone, so that one with several numbers of threads has these in
// it, as theirs do.
void write_gbench(const std::filesystem::path& path, const std::vector<Row>& rows) {
  json context;
  json benchmarks = json::array();
  std::map<std::string, std::set<int>> threads;
  for (const Row& row : rows) {
    threads[row.name].insert(row.threads);
  }
  for (const Row& row : rows) {
    json benchmark = row.field("gbench_row");
    if (row.ok() && !benchmark.is_null()) {
      context = row.field("gbench_context");
      const json cpu_ms = row.field("cpu_ms");
      if (!benchmark.is_object() || !cpu_ms.is_array() || cpu_ms.size() != row.samples_ms.size()) {
        continue; // of a ledger that somebody edited
      }
      benchmark["cell"] = cell_json(row);
      if (threads.at(row.name).size() > 1) {
        benchmark["name"] = benchmark["run_name"] =
            fmt::format("{}/threads:{}", row.name, row.threads);
      }
      for (std::size_t i = 0; i < row.samples_ms.size(); ++i) {
        benchmark["repetition_index"] = i;
        benchmark["real_time"] = row.samples_ms[i];
        benchmark["cpu_time"] = cpu_ms.at(i);
        benchmarks.push_back(benchmark);
      }
    }
  }
  if (!context.is_null()) {
    write_text_file(path, json{{"context", context}, {"benchmarks", benchmarks}}.dump(2) + "\n");
  }
}

} // namespace clusterbench

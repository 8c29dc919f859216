// Ledgers of small made-up campaigns, for tests of whatever reads ledgers.
#pragma once

#include "harness/ledger/ledger.hpp"
#include "harness/ledger/measurements.hpp"
#include "harness/machine/environment.hpp"
#include "harness/problem/problem_spec.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench::made_up {

using nlohmann::json;

/// A header of a machine with that processor.
inline json header(const std::string& processor = "a processor",
                   std::optional<std::uint64_t> seed = 7) {
  json provenance = {{"cpu", {{"model", processor}, {"cores", 2}, {"online", 2}}},
                     {"environment", json::object()},
                     {"system", {{"kernel", "k"}}},
                     {"gpu", {{"devices", json::array()}}}};
  json line = {{"type", "header"},
               {"schema", kLedgerSchema},
               {"environment_hash", environment_hash(provenance)},
               {"sampling", {{"samples", 9}}},
               {"provenance", provenance},
               {"limits", json::object()}};
  if (seed) {
    line["starts_seed"] = *seed;
  }
  return line;
}

/// What every row says of its problem, in the table's own words.
inline json problem(const ProblemSpec& spec, const std::string& id = "p") {
  json words = to_json(spec);
  words.update({{"id", id}, {"n", 100}, {"d", 2}, {"data_sha256", "abc"}, {"hash", "of " + id}});
  return words;
}

/// A row that has no time.
inline json row(const std::string& table, const std::string& variant, const std::string& status,
                const json& words, int round = 1) {
  const std::string id = words.at("id");
  return {{"type", "cell"},
          {"schema", kLedgerSchema},
          {"table", table},
          {"name", fmt::format("{}/{}/{}/f32", table, id, variant)},
          {"variant", variant},
          {"precision", "f32"},
          {"threads", 2},
          {"round", round},
          {"time", "2026-11-21T00:00:00Z"},
          {"key", fmt::format("{} {}", variant, round)},
          {"device", "cpu"},
          {"problem", words},
          {"status", status},
          {"message", status == "ok" ? "" : "why"}};
}

/// Gives a row the figures of runs that took so long [ms], each of as many passes from start 0, 1,
/// ... The first is from the problem's own start. Whole answers take 1 ms more: 0.25 ms before the
/// run, as much for the download, and the rest.
inline void put_times(json& row, const std::vector<double>& samples, std::size_t passes) {
  std::vector<std::size_t> starts, iterations(samples.size(), passes);
  std::vector<double> per_pass;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    starts.push_back(i);
    per_pass.push_back(samples[i] / static_cast<double>(passes));
  }
  row.update({{"samples_ms", samples},
              {"sample_starts", starts},
              {"sample_iterations", iterations},
              {"warm_up_samples_ms", json::array()},
              {"own_start", {{"ms", samples.front()}, {"iterations", passes}}},
              {"median_ms", median(samples)},
              {"iterations", passes},
              {"ms_per_iteration", median(per_pass)},
              {"recorded_passes", passes},
              {"oracle", "whole run"},
              {"upload_ms", 0.25},
              {"prepare_ms", 0.5},
              {"download_ms", 0.25},
              {"whole_ms", median(samples) + 1.0},
              {"whole", json::array()}});
  for (std::size_t i = 0; i < 5; ++i) {
    const double run = median(samples);
    row["whole"].push_back(
        {{"ms", run + 1.0}, {"run_ms", run}, {"iterations", passes}, {"start", 1000000 + i}});
  }
}

/// Rows as a campaign leaves them behind.
inline std::vector<Row> rows_of(const std::vector<json>& lines, const json& head = header()) {
  const auto shared = std::make_shared<const Header>(head, "made up");
  std::vector<Row> rows;
  for (const json& line : lines) {
    rows.emplace_back(line, shared);
  }
  return rows;
}

} // namespace clusterbench::made_up

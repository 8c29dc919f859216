#include "harness/campaign/earlier_rows.hpp"

#include "harness/ledger/measurements.hpp"
#include "harness/system/exit_codes.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <utility>

namespace clusterbench {
namespace {

using nlohmann::json;

// Whether rows below the header may be of a campaign with these options, as far as it tells.
bool has_settings(const Header& header, const CampaignOptions& options) {
  const auto is = [&](const char* field, const json& value) {
    return header.line.value(field, json()) == value;
  };
  return is("threads", options.cell.threads) && is("gpus", options.cell.gpus) &&
         is("ranks", options.cell.ranks) && is("sampling", options.cell.sampling);
}

// The starts of most rows of the campaign's own cells; of equally many the newest. Empty: it has
// none.
std::optional<std::uint64_t> seed_of_own_rows(const CampaignOptions& options,
                                              const LedgerContent& earlier) {
  std::set<std::pair<std::string, std::string>> own;
  for (const CellSpec& cell : options.cells) {
    own.emplace(cell_name(cell), definition_of(to_json(cell.problem).dump()));
  }
  std::set<const Header*> headers;
  for (const auto& header : earlier.headers) {
    if (header->starts_seed && has_settings(*header, options)) {
      headers.insert(header.get());
    }
  }
  std::map<std::uint64_t, std::size_t> counts;
  std::optional<std::uint64_t> best;
  for (const Row& row : earlier.rows) {
    if (headers.contains(row.header.get()) && own.contains({row.name, row.identity.definition})) {
      const std::uint64_t seed = *row.header->starts_seed;
      best = ++counts[seed] >= counts[best.value_or(seed)] ? seed : best;
    }
  }
  return best;
}

} // namespace

std::map<std::string, Row> settled_rows(std::vector<Row> rows, bool sandboxed) {
  std::map<std::string, Row> settled;
  for (Row& row : rows_that_count(std::move(rows))) {
    const bool never_ran = row.status == "refused" || row.status == "unavailable";
    const ExitCode end = exit_code_of(row.status);
    if ((end == ExitCode::ok || end == ExitCode::wrong_result) &&
        (never_ran || row.unsandboxed != sandboxed)) {
      settled.insert_or_assign(row.key, std::move(row));
    }
  }
  return settled;
}

std::uint64_t starts_seed(const CampaignOptions& options, const LedgerContent& earlier) {
  if (options.starts_seed) {
    return *options.starts_seed;
  }
  if (const auto own = seed_of_own_rows(options, earlier); options.resume && own) {
    return *own;
  }
  if (options.resume && !earlier.headers.empty() && earlier.headers.back()->starts_seed) {
    return *earlier.headers.back()->starts_seed;
  }
  return std::random_device{}(); // 32 bits: what readers of JSON keep exactly
}

} // namespace clusterbench

// Any text as a ledger: every line is sound or damaged, what sound rows say can be read, and a
// repaired ledger has the same rows and no damage.
#include "harness/ledger/measurements.hpp"
#include "harness/ledger/repair.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

using namespace clusterbench;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const LedgerScan scan = scan_ledger_text(text, "fuzz.jsonl", "fuzz.jsonl");
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) +
                     (text.empty() || text.ends_with('\n') ? 0 : 1);
  if (scan.sound.size() + scan.damaged.size() != lines)
    std::abort();
  for (const Row& row : scan.content.rows) {
    if (row.ok() && row.samples_ms.empty())
      std::abort();
    if (nlohmann::json(row).at("name") != row.name)
      std::abort();
    row.problem();
    row.warm_up_share();
  }
  for (const Measured& cell : measurements_of(scan.content.rows).cells)
    cell.median_of("iterations");

  const LedgerScan again = scan_ledger_text(repaired_text(scan), "again.jsonl", "again.jsonl");
  if (!again.damaged.empty() || again.content.rows.size() != scan.content.rows.size())
    std::abort();
  for (std::size_t i = 0; i < again.content.rows.size(); ++i)
    if (again.content.rows[i].text != scan.content.rows[i].text)
      std::abort();
  if (!scan.damaged.empty() && again.content.edited.find("repaired") == std::string::npos)
    std::abort();
  return 0;
}

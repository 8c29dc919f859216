// What the page of `clusterbench report` shows, as JSON.
#pragma once

#include "harness/ledger/measurements.hpp"
#include "harness/report/table_report.hpp"
#include "harness/report/variant_text.hpp"

#include <nlohmann/json.hpp>
#include <vector>

namespace clusterbench {

/// Whether the campaign of a row took the tables' smaller sizes.
bool is_quick(const Row& row);

/// All cells as `clusterbench ledger --json` has them, without their traces, and beside them:
/// problems and variants, once each; the samples and the intervals of each measure; how a cell's
/// work differs from that of its problem's other cells; the ledger that it is from, and whether its
/// run was quick. variants: what is known of those that the cells name. articles: the tables that
/// articles printed, with the verdicts on their rows.
nlohmann::json page_data(const Measurements& measurements, const std::vector<VariantText>& variants,
                         const std::vector<TableReport>& articles = {});

} // namespace clusterbench

// What a campaign takes over from earlier ones in its ledger: settled rows, and the starts.
#pragma once

#include "harness/campaign/campaign.hpp"
#include "harness/ledger/ledger.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace clusterbench {

/// Rows of earlier invocations by key: those that count and are settled, because running their
/// cells again would tell no more. A crash or a lack of time or memory may have had its cause
/// outside, or have it no longer. Answers of a run without a sandbox vouch for none with it, and
/// its times are others.
std::map<std::string, Row> settled_rows(std::vector<Row> rows, bool sandboxed);

/// The seed of the starts of a campaign with these options. One that is resumed goes on with the
/// starts that it began with: its cells and those to come have the same. Another campaign may have
/// been appended since.
std::uint64_t starts_seed(const CampaignOptions& options, const LedgerContent& earlier);

} // namespace clusterbench

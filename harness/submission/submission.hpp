// A file from outside on its way to a campaign: compiled, asked what it holds, qualified, and run
// beside the variants of this build on the same starts.
#pragma once

#include "harness/campaign/campaign.hpp"
#include "harness/problem/table.hpp"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

struct SubmissionOptions {
  std::vector<std::filesystem::path> files;
  std::vector<std::string> variants;  ///< globs: of those that the files hold; empty: all
  std::string table;                  ///< whose problems are taken; empty: the default ones
  bool quick = false;                 ///< the table's smaller sizes
  std::optional<ProblemSpec> problem; ///< the one that is taken instead
  std::vector<Precision> precisions;  ///< empty: float32, or float64 of those that lack it
  std::vector<std::string> beside; ///< globs: the variants to stand beside; empty: usual_company()
  bool alone = false;              ///< none is
  CampaignOptions campaign;        ///< all but the cells
};

/// Right or wrong on the small awkward problems, before anything is timed.
struct FirstVerdict {
  std::string variant;
  Precision precision = Precision::f32;
  std::string status, message; ///< as in a ledger's row
};

struct Judged {
  std::vector<std::string> variants; ///< those from outside
  Table table;                       ///< the problems with all cells
  CampaignResult campaign;           ///< its exit code is of the variants from outside alone
};

/// Tells each first verdict as soon as it is known. A variant that does not qualify is not timed:
/// it gets one row that says so. Throws datasets::InputError for a file that cannot be judged,
/// before a file is written; whatever it does when it runs is the status of its rows.
Judged judge_files(const SubmissionOptions& options,
                   const std::function<void(const FirstVerdict&)>& tell);

} // namespace clusterbench

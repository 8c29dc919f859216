// What checks find while an answer is judged.
#pragma once

#include "harness/judge/verifier.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace clusterbench {

/// Collects checks and findings; the first finding of a check is kept.
class Report {
public:
  /// Records that a check was made, and where it failed, if it did. Returns whether it passed.
  bool operator()(const std::string& check, std::optional<std::string> where) {
    if (std::find(verdict.checks.begin(), verdict.checks.end(), check) == verdict.checks.end()) {
      verdict.checks.push_back(check);
    }
    const auto same = [&](const Finding& finding) { return finding.check == check; };
    if (where && std::none_of(verdict.findings.begin(), verdict.findings.end(), same)) {
      verdict.findings.push_back({check, *std::move(where)});
    }
    return !where;
  }
  Verdict verdict;
};

} // namespace clusterbench

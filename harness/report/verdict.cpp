#include "harness/report/verdict.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {
namespace {

bool has_an_order(const ComparedRow& row) {
  return row.speedup && row.wrong.empty() && row.other_work.empty();
}

const char* faster_or_slower(bool faster) {
  return faster ? "faster" : "slower";
}

// Every row that the printed order puts on the other side.
void check_order(const std::vector<ComparedRow>& rows, const ComparedRow& row,
                 std::vector<std::string>& reasons) {
  for (const ComparedRow& other : rows) {
    if (&other == &row || !has_an_order(other)) {
      continue;
    }
    const double apart = std::max(row.printed_speedup, other.printed_speedup) /
                         std::min(row.printed_speedup, other.printed_speedup);
    const bool printed_faster = row.printed_speedup > other.printed_speedup;
    const bool faster = *row.speedup > *other.speedup;
    if (apart > kEqualWhenPrinted && printed_faster != faster) {
      reasons.push_back(fmt::format("printed {} than {}, here {}", faster_or_slower(printed_faster),
                                    other.label, faster_or_slower(faster)));
    }
  }
}

} // namespace

RowVerdict judge_row(const std::vector<ComparedRow>& rows, std::size_t index) {
  const ComparedRow& row = rows.at(index);
  if (!row.wrong.empty()) {
    return {"published program is wrong", {row.wrong}};
  }
  if (!row.other_work.empty()) {
    return {"not comparable", {"printed: " + row.other_work}};
  }
  if (!row.speedup) {
    return {row.missing == "not run" ? "not run" : "not comparable", {row.missing}};
  }
  if (row.is_baseline) {
    return {"baseline", {}};
  }
  RowVerdict verdict;
  const double ratio = *row.speedup / row.printed_speedup;
  if (!(ratio <= row.factor && ratio >= 1.0 / row.factor)) { // NaN is no reproduction
    verdict.reasons.push_back(
        fmt::format("speed-up {:.3g} printed, {:.3g} here", row.printed_speedup, *row.speedup));
  }
  check_order(rows, row, verdict.reasons);
  verdict.word = verdict.reasons.empty() ? "reproduced" : "not reproduced";
  if (!row.factor_reason.empty()) {
    verdict.reasons.push_back(
        fmt::format("within a factor of {:g}: {}", row.factor, row.factor_reason));
  }
  return verdict;
}

} // namespace clusterbench

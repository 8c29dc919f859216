// What a check that goes point by point found: how many are wrong, and the first one.
#pragma once

#include "harness/judge/point_selection.hpp"
#include "harness/judge/row_chunks.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// Of one point. off: differs from float64, but within rounding.
enum class Judgement { right, off, wrong };

struct PointFindings {
  std::optional<std::string> violation; ///< the first wrong point and the number of them
  std::size_t off = 0;                  ///< points that differ from float64, but within rounding
};

/// judge(begin, end, scratch, keep) calls keep(row, judgement) for the points begin to end of the
/// selection; describe(row, scratch) says what is wrong with one.
template <typename Scratch, typename Judge, typename Describe>
PointFindings find_points(const PointSelection& points, double operations_per_row,
                          const Scratch& scratch, const Judge& judge, const Describe& describe) {
  struct Count {
    std::size_t wrong = 0;
    std::size_t first_wrong = 0;
    std::size_t off = 0;
  };
  const auto chunks = row_chunks(points.size(), 1, operations_per_row);
  std::vector<Count> counts(chunks.size());
  for_each_chunk(chunks, operations_per_row, scratch,
                 [&](std::size_t index, RowChunk rows, Scratch& mine) {
                   Count& count = counts[index];
                   judge(rows.begin, rows.end, mine, [&](std::size_t row, Judgement judgement) {
                     count.off += judgement == Judgement::off ? 1 : 0;
                     if (judgement == Judgement::wrong && count.wrong++ == 0) {
                       count.first_wrong = row;
                     }
                   });
                 });
  PointFindings findings;
  std::size_t wrong = 0;
  std::optional<std::size_t> first;
  for (const Count& count : counts) {
    findings.off += count.off;
    wrong += count.wrong;
    if (count.wrong > 0 && !first) {
      first = count.first_wrong;
    }
  }
  if (first) {
    Scratch own = scratch;
    findings.violation = fmt::format("point {}: {}; {} of {} points", *first, describe(*first, own),
                                     wrong, points.size());
  }
  return findings;
}

} // namespace clusterbench

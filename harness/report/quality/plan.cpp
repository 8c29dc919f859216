#include "harness/report/quality/plan.hpp"

#include "datasets/errors.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <set>
#include <tuple>

namespace clusterbench {
namespace {

using datasets::InputError;

std::uint64_t seed_of(std::string_view text, std::string_view whole) {
  std::uint32_t seed = 0; // what NumPy's RandomState accepts
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    throw InputError(
        fmt::format("--seeds {}: \"{}\" is not a seed (0 to 4294967295)", whole, text));
  }
  return seed;
}

std::vector<const KnownVariant*> chosen_variants(const QualityPlan& plan) {
  if (!plan.variants.empty()) {
    const auto chosen = match_variants(plan.variants);
    for (const KnownVariant* variant : chosen) {
      if (variant->meta.family != Family::kmeans) {
        throw InputError(fmt::format("--variant: {} is fuzzy c-means; time to quality is measured "
                                     "for k-means only",
                                     variant->meta.name));
      }
    }
    return chosen;
  }
  std::vector<const KnownVariant*> chosen = all_variants();
  std::erase_if(chosen, [](const KnownVariant* variant) {
    return variant->meta.family != Family::kmeans || !unavailable_reason(*variant).empty();
  });
  return chosen;
}

std::string problem_id(const ProblemSpec& problem) {
  const std::string take = problem.take == 0 ? "" : fmt::format("[:{}]", problem.take);
  return fmt::format("{}{} k={} {}", problem.data, take, problem.k, to_string(problem.init));
}

} // namespace

std::vector<std::uint64_t> parse_seeds(std::string_view text) {
  constexpr std::uint64_t kMost = 1000; // more is a slip of the finger
  const auto dots = text.find("..");
  const std::uint64_t first = seed_of(text.substr(0, dots), text);
  const std::uint64_t last =
      dots == std::string_view::npos ? first : seed_of(text.substr(dots + 2), text);
  if (last < first || last - first >= kMost) {
    throw InputError(
        fmt::format("--seeds {}: A..B with A <= B and at most {} seeds is needed", text, kMost));
  }
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    seeds.push_back(seed);
  }
  return seeds;
}

std::vector<ProblemSpec> quality_problems(const Table& table) {
  std::vector<ProblemSpec> problems;
  std::set<std::tuple<std::string, std::size_t, std::size_t>> seen;
  for (const auto& [id, problem] : table.problems) {
    if (problem.family == Family::kmeans &&
        seen.emplace(problem.data, problem.take, problem.k).second) {
      problems.push_back(problem);
    }
  }
  if (problems.empty()) {
    throw InputError(fmt::format("quality: table {} holds no k-means problem, and time to quality "
                                 "is measured for k-means only",
                                 table.name));
  }
  return problems;
}

std::vector<CellSpec> quality_cells(const QualityPlan& plan) {
  std::vector<InitSpec> starts;
  for (const std::string& init : plan.inits) {
    for (const std::uint64_t seed : plan.seeds) {
      if (init != "random" && init != "kmeans++") {
        throw InputError(
            fmt::format("--init {}: time to quality starts from random or kmeans++", init));
      }
      starts.push_back(parse_init(fmt::format("{}:{}", init, seed)));
    }
  }
  std::vector<CellSpec> cells;
  for (ProblemSpec problem : plan.problems) {
    for (const InitSpec& start : starts) {
      problem.init = start;
      for (const KnownVariant* variant : chosen_variants(plan)) {
        for (const Precision precision : plan.precisions) {
          if (!plan.variants.empty() || supports(*variant, precision)) {
            cells.push_back(
                {kQualityTable, problem_id(problem), problem, precision, variant->meta.name});
          }
        }
      }
    }
  }
  if (cells.empty()) {
    throw InputError("quality: no variant of this build takes the problems");
  }
  return cells;
}

} // namespace clusterbench

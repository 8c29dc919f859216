#include "harness/submission/choice.hpp"

#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"
#include "harness/system/available_memory.hpp"
#include "harness/system/files.hpp"
#include "harness/system/json_words.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

constexpr std::size_t kProblems = 5;
constexpr std::size_t kOfBuild = 2, kOfOthers = 1;
// Points in float64, their copies in worker and oracle, and what a program of Python makes of them.
constexpr std::size_t kBytesPerNumber = 64;

std::filesystem::path file_of(Family family) {
  return tables_folder().parent_path() / "judge" / fmt::format("{}.json", to_string(family));
}

bool is_taken(const KnownVariant& variant, const ProblemSpec& problem) {
  const auto recipe = datasets::parse_spec(problem.data);
  if (!recipe) {
    return true; // what it is shows when it is loaded
  }
  const auto arguments = nlohmann::json::parse(recipe->arguments);
  const auto n = arguments.value("n", std::size_t{0});
  const auto d = arguments.value("d", std::size_t{0});
  const Meta& meta = variant.meta;
  return d >= meta.min_d && d <= meta.max_d && problem.k <= meta.max_k &&
         n * d * kBytesPerNumber < available_memory_bytes();
}

} // namespace

Table default_problems(const KnownVariant& variant) {
  Table table = load_table_file(file_of(variant.meta.family), /*quick=*/false);
  std::erase_if(table.problems,
                [&](const auto& problem) { return !is_taken(variant, problem.second); });
  table.problems.resize(std::min(table.problems.size(), kProblems));
  if (table.problems.empty()) {
    throw datasets::InputError(fmt::format(
        "{}: no problem of {} has as many features and clusters as {} declares to take; "
        "name one with --data and --k",
        variant.file.string(), file_of(variant.meta.family).string(), variant.meta.name));
  }
  return table;
}

std::vector<const KnownVariant*> usual_company(const KnownVariant& variant, Precision precision,
                                               bool weighted) {
  const std::filesystem::path file = file_of(variant.meta.family);
  std::vector<std::string> order;
  try {
    order = read_json_file(file).at("order").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    throw datasets::InputError(fmt::format("{}: {}", file.string(), words_of(error)));
  }
  std::vector<const KnownVariant*> company;
  std::size_t of_build = 0, of_others = 0;
  for (const std::string& name : order) {
    const KnownVariant* const other = find_variant(name);
    if (other == nullptr || other->meta.family != variant.meta.family ||
        computes_on_gpus(other->meta.device) != computes_on_gpus(variant.meta.device) ||
        !supports(*other, precision) || (weighted && !other->meta.takes_weights) ||
        (other->meta.approximate_within > 0.0 && variant.meta.approximate_within == 0.0)) {
      continue;
    }
    std::size_t& count = other->is_program ? of_others : of_build;
    if (count < (other->is_program ? kOfOthers : kOfBuild) && unavailable_reason(*other).empty()) {
      ++count;
      company.push_back(other);
    }
  }
  return company;
}

} // namespace clusterbench

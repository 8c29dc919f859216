#include "datasets/catalog.hpp"

#include "datasets/errors.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <numeric>

namespace clusterbench::datasets {

extern const char* const kCatalogJson; // datasets/catalog.json

namespace {

using nlohmann::json;

const json& entries() {
  static const json parsed = json::parse(kCatalogJson).at("datasets");
  return parsed;
}

constexpr std::string_view kMixture = "mixture:n,d,components,std,seed";
constexpr std::string_view kUniform = "uniform:n,d,seed";

/// The numbers of a spec that follows `pattern`, by the pattern's own names for them.
class Numbers {
public:
  Numbers(std::string_view spec, std::string_view pattern)
      : spec_(spec), pattern_(pattern), names_(fields_of(pattern)), fields_(fields_of(spec)) {
    if (fields_.size() != names_.size())
      throw InputError(fmt::format("{}: {} numbers, {} expected: {}", spec, fields_.size(),
                                   names_.size(), pattern));
  }

  template <class T>
  T get(std::string_view name, T least) const {
    const auto index = std::find(names_.begin(), names_.end(), name) - names_.begin();
    const std::string_view field = fields_[static_cast<std::size_t>(index)];
    T value{};
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    const bool whole = error == std::errc() && end == field.data() + field.size();
    if (!whole || !(value >= least) || !std::isfinite(static_cast<double>(value)))
      throw InputError(fmt::format(
          "{}: '{}' will not do for {}, {} of at least {} expected: {}", spec_, field, name,
          std::is_integral_v<T> ? "a whole number" : "a number", least, pattern_));
    return value;
  }

private:
  static std::vector<std::string_view> fields_of(std::string_view text) {
    std::vector<std::string_view> fields;
    for (std::size_t begin = text.find(':') + 1; begin != 0;) {
      const std::size_t comma = text.find(',', begin);
      fields.push_back(text.substr(begin, comma - begin));
      begin = comma + 1; // npos + 1 is 0: the end
    }
    return fields;
  }

  std::string_view spec_, pattern_;
  std::vector<std::string_view> names_, fields_;
};

/// Sets of more than 4 GiB in float64 are kept in float32.
std::string_view stored_type(std::size_t n, std::size_t d) {
  constexpr double kMostBytes = 4.0 * 1024 * 1024 * 1024;
  return 8.0 * static_cast<double>(n) * static_cast<double>(d) > kMostBytes ? "f32" : "f64";
}

Recipe mixture_recipe(std::string_view spec) {
  const Numbers numbers(spec, kMixture);
  const auto n = numbers.get<std::size_t>("n", 1);
  const auto d = numbers.get<std::size_t>("d", 1);
  const auto components = numbers.get<std::size_t>("components", 1);
  const auto std = numbers.get<double>("std", 0.0);
  const auto seed = numbers.get<std::uint32_t>("seed", 0);
  const json arguments = {{"n", n},     {"d", d},       {"components", components},
                          {"std", std}, {"seed", seed}, {"type", stored_type(n, d)}};
  return {fmt::format("mixture:{},{},{},{},{}", n, d, components, std, seed), "mixture",
          arguments.dump(), n, d};
}

Recipe uniform_recipe(std::string_view spec) {
  const Numbers numbers(spec, kUniform);
  const auto n = numbers.get<std::size_t>("n", 1);
  const auto d = numbers.get<std::size_t>("d", 1);
  const auto seed = numbers.get<std::uint32_t>("seed", 0);
  const json arguments = {{"n", n}, {"d", d}, {"seed", seed}, {"type", stored_type(n, d)}};
  return {fmt::format("uniform:{},{},{}", n, d, seed), "uniform", arguments.dump(), n, d};
}

/// Levenshtein's distance: the fewest insertions, deletions and replacements from a to b.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

} // namespace

std::vector<CatalogEntry> catalog() {
  std::vector<CatalogEntry> out;
  for (const json& entry : entries())
    out.push_back({entry.at("name"), entry.at("description"), entry.at("source"),
                   entry.value("rows", std::size_t{0}), entry.value("cols", std::size_t{0})});
  return out;
}

std::optional<Recipe> parse_spec(std::string_view spec) {
  if (spec.starts_with("mixture:"))
    return mixture_recipe(spec);
  if (spec.starts_with("uniform:"))
    return uniform_recipe(spec);
  for (const json& entry : entries())
    if (entry.at("name") == spec && entry.contains("generator"))
      return Recipe{std::string(spec), entry.at("generator"), entry.at("arguments").dump(),
                    entry.at("rows"), entry.at("cols")};
  return std::nullopt;
}

bool is_known(std::string_view spec) {
  try {
    return parse_spec(spec).has_value();
  } catch (const InputError&) {
    return false;
  }
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [word](const std::string& a, const std::string& b) {
                                       return edit_distance(word, a) < edit_distance(word, b);
                                     });
  return best == candidates.end() ? std::string() : *best;
}

} // namespace clusterbench::datasets

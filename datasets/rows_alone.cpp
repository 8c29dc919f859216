// Rows of generated datasets that are made without the others.
#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace clusterbench::datasets {
namespace {

using nlohmann::json;

Recipe recipe_of(std::string_view name) {
  if (std::optional<Recipe> recipe = parse_spec(name))
    return *std::move(recipe);
  throw InputError(fmt::format("{}: only generated datasets have rows that are made alone", name));
}

/// Generators make some thousand rows by one stream of random numbers: a piece that begins where a
/// stream does draws none for nothing.
constexpr std::size_t kRowsOfAStream = 4096;

std::size_t rows_of_piece(std::size_t row_bytes, std::size_t most_bytes) {
  const std::size_t rows = std::max<std::size_t>(most_bytes / row_bytes, 1);
  return rows < kRowsOfAStream ? rows : rows / kRowsOfAStream * kRowsOfAStream;
}

} // namespace

bool makes_rows_alone(std::string_view name) {
  const std::optional<Recipe> recipe = parse_spec(name);
  return recipe && recipe->makes_rows_alone();
}

Array generate_rows(std::string_view name, RowRange rows) {
  const Recipe recipe = recipe_of(name);
  return generate(recipe.generator, json::parse(recipe.arguments), rows);
}

void generate_in_pieces(std::string_view name, RowRange rows, std::size_t most_bytes,
                        const std::function<void(const Array& piece, std::size_t first)>& take) {
  const Recipe recipe = recipe_of(name);
  const json arguments = json::parse(recipe.arguments);
  const Array none = generate(recipe.generator, arguments, {0, 0}); // says how wide a row is
  const RowRange all = rows.of(arguments.at("n"));
  const std::size_t piece = rows_of_piece(none.cols() * size_of(none.type()), most_bytes);
  const std::size_t end = all.first + all.count;
  for (std::size_t first = all.first; first < end;) {
    const std::size_t count = std::min(piece - first % piece, end - first);
    take(generate(recipe.generator, arguments, {first, count}), first);
    first += count;
  }
}

} // namespace clusterbench::datasets

// Any text as the name of a dataset: a recipe whose name is a fixed point, nothing, or a refusal.
#include "datasets/catalog.hpp"
#include "datasets/errors.hpp"

#include <cstdint>
#include <cstdlib>

using namespace clusterbench::datasets;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view spec(reinterpret_cast<const char*>(data), size);
  try {
    const std::optional<Recipe> recipe = parse_spec(spec);
    if (recipe.has_value() != is_known(spec))
      std::abort();
    if (recipe && parse_spec(recipe->name)->arguments != recipe->arguments)
      std::abort();
  } catch (const InputError&) {
    if (is_known(spec))
      std::abort();
  }
  return 0;
}

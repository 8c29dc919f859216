// Any text as what a module or a program says of its variants: known, or refused with a reason.
#include "datasets/errors.hpp"
#include "harness/problem/description.hpp"

#include <cstdint>
#include <cstdlib>

using namespace clusterbench;
using nlohmann::json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const json said = json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (said.is_discarded())
    return 0;
  try {
    const KnownVariant variant = variant_from(said, "kmeans_x.cpp");
    if (variant.meta.name != said.at("name"))
      std::abort();
    to_string(variant.meta.device);
    to_string(variant.meta.arithmetic);
    to_string(variant.meta.multiplier);
    variant.description.dump();
  } catch (const datasets::InputError&) {
  }
  for (const json& reply : {said, json{{"protocol", kProtocol}, {"variants", {said}}}})
    try {
      for (const KnownVariant& variant : variants_from(reply, "kmeans_x.pl"))
        if (!variant.is_program || !variant.meta.name.starts_with("kmeans_x"))
          std::abort();
    } catch (const datasets::InputError&) {
    }
  return 0;
}

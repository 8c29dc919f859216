// Any text as a .csv file, with and without labels; the quick and the careful number parser agree.
#include "datasets/decimal.hpp"
#include "datasets/errors.hpp"
#include "datasets/readers.hpp"

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdlib>

using namespace clusterbench::datasets;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool labelled : {false, true})
    try {
      const Array points = parse_csv(text, "fuzz.csv", {.last_column_is_label = labelled});
      if (points.rows() == 0 || points.cols() == 0 || points.labels.has_value() != labelled)
        std::abort();
      check_points(points);
    } catch (const InputError&) {
    }

  const char* const end = text.data() + text.size();
  double expected = 0;
  double found = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, expected);
  const char* const ours = parse_decimal(text.data(), end, found);
  if (ours != (error == std::errc() ? stop : nullptr))
    std::abort();
  if (ours != nullptr && expected == expected &&
      std::bit_cast<std::uint64_t>(expected) != std::bit_cast<std::uint64_t>(found))
    std::abort();
  return 0;
}

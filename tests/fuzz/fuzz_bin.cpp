// Any bytes as a .fbin, a .u8bin and an .i8bin file: read or refused, and what is read fills the
// file.
#include "datasets/bin.hpp"
#include "datasets/errors.hpp"

#include <cstdint>
#include <cstdlib>

using namespace clusterbench::datasets;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  for (const BinElement element : {BinElement::f32, BinElement::u8, BinElement::i8})
    try {
      const Array points = parse_bin(file, element, "fuzz.bin");
      if (8 + points.size() * size_of(element) != size)
        std::abort();
      check_points(points);
    } catch (const InputError&) {
    }
  return 0;
}

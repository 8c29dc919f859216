// Any bytes as a .fvecs and a .bvecs file: read or refused, and what is read fills the file.
#include "datasets/errors.hpp"
#include "datasets/readers.hpp"

#include <cstdint>
#include <cstdlib>

using namespace clusterbench::datasets;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  for (const ElementType type : {ElementType::f32, ElementType::u8})
    try {
      const Array points = parse_vecs(file, type, "fuzz.vecs");
      if (points.rows() * (4 + points.cols() * size_of(type)) != size)
        std::abort();
      check_points(points);
    } catch (const InputError&) {
    }
  return 0;
}

// Any bytes as a .npy file: read or refused, nothing else; what is read holds what was promised.
#include "datasets/errors.hpp"
#include "datasets/npy.hpp"

#include <cstdint>
#include <cstdlib>

using namespace clusterbench::datasets;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const NpyHeader header = parse_npy_header(file, "fuzz.npy");
    if (header.offset + header.rows * header.cols * size_of(header.type) != size)
      std::abort();
    const Array points = decode_npy(header, file, "fuzz.npy");
    if (points.size() != header.rows * header.cols || points.type() != points_type(header.type))
      std::abort();
    check_points(points);
  } catch (const InputError&) {
  }
  return 0;
}

// Points as a variant is given them in the tests that prepare it themselves: rows, or the file of a
// variant that streams.
#pragma once

#include "harness/system/shared_memory.hpp"
#include "impls/contract.hpp"

#include <algorithm>
#include <map>
#include <span>

namespace clusterbench {

/// Both of them; each variant object has its file until it is given the next one.
template <typename T>
Points<T> points_for(const void* variant, std::span<const T> rows) {
  static std::map<const void*, SharedMemory> files;
  SharedMemory& file = files[variant];
  file = SharedMemory("points", rows.size_bytes());
  std::ranges::copy(rows, file.as<T>().begin());
  Points<T> points{rows};
  points.in_file = {file.fd()};
  return points;
}

} // namespace clusterbench

#include "harness/campaign/plain_read.hpp"

#include "datasets/errors.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <new>
#include <unistd.h>

namespace clusterbench {

double plain_read_seconds(const PointsPlace& place, std::size_t bytes) {
  constexpr std::size_t kPage = 4096; // a direct read begins and ends at a multiple
  constexpr std::size_t kBlock = std::size_t{8} << 20;
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kPage, kBlock),
                                                          std::free);
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::size_t end = place.offset + bytes;
  for (std::size_t at = place.offset / kPage * kPage; at < end;) {
    const std::size_t wanted = std::min(kBlock, (end - at + kPage - 1) / kPage * kPage);
    const ssize_t got = pread(place.descriptor, block.get(), wanted, static_cast<off_t>(at));
    if (got <= 0) {
      throw datasets::InputError(fmt::format("the points cannot be read at byte {}: {}", at,
                                             got < 0 ? std::strerror(errno) : "the file ends"));
    }
    // A short read is the file's end, or a disk's whim: go on from the page that was reached.
    at = at + static_cast<std::size_t>(got) >= end
             ? end
             : (at + std::max(static_cast<std::size_t>(got), kPage)) / kPage * kPage;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace clusterbench

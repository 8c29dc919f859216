// Leaps in the stream of MT19937: to any word, without the words between.
// Source: H. Haramoto et al., "Efficient jump ahead for F2-linear random number generators",
// INFORMS Journal on Computing 20(3), 2008.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace clusterbench::datasets::mersenne {

inline constexpr std::size_t kWords = 624;
inline constexpr std::size_t kShift = 397;

/// A window of kWords words of the stream, before they are tempered: all that the next ones depend
/// on.
using State = std::array<std::uint32_t, kWords>;

/// The word kWords places after `word`; `next` is the one after it, `shifted` the one kShift after
/// it.
inline std::uint32_t later_word(std::uint32_t word, std::uint32_t next, std::uint32_t shifted) {
  const std::uint32_t y = (word & 0x80000000u) | (next & 0x7fffffffu);
  return shifted ^ y >> 1 ^ ((0u - (y & 1u)) & 0x9908b0dfu);
}

/// The window that begins `count` words later, in the time of some hundred thousand words, whatever
/// the count. The lower 31 bits of its first word mean nothing, as no later word depends on them.
State jumped(const State& state, std::uint64_t count);

} // namespace clusterbench::datasets::mersenne

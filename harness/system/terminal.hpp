// What the terminal at the other end of a stream can show: colours, lines that are erased, its
// width.
#pragma once

#include <cstddef>
#include <string>

namespace clusterbench {

/// A colour says what a word beside it says, too: nothing is told by colour alone.
enum class Paint {
  plain,
  best,
  wrong,  ///< not to be believed, or lost: wrong, cheated, crashed
  refused ///< took no part
};

/// Whether whoever reads the stream wants colours: it is a terminal, TERM is not "dumb", and
/// NO_COLOR is empty or not set (no-color.org).
bool takes_colours(int descriptor);

/// Whether a line can be erased and written again.
bool can_erase_lines(int descriptor);

/// The terminal's width; 100 where it tells none.
std::size_t columns_of(int descriptor);

/// The text in its colour; as it is if that is Paint::plain.
std::string painted(const std::string& text, Paint paint);

/// How many columns a text takes, if every character takes one: bytes that go on with a character
/// of UTF-8 take none of their own.
std::size_t width_of(const std::string& text);

/// At most so many columns of the text: the beginning and the end of a longer one, "…" between
/// them.
std::string shortened(const std::string& text, std::size_t columns);

} // namespace clusterbench

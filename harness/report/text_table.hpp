// Columns of text, aligned for a terminal or as a Markdown table.
#pragma once

#include "harness/system/terminal.hpp"

#include <string>
#include <vector>

namespace clusterbench {

/// `coloured` is `terminal` with colours, for a terminal that takes them.
enum class TextStyle { terminal, coloured, markdown };

/// The text in its colour, in a style that has some.
std::string painted(const std::string& text, Paint paint, TextStyle style);

struct TextColumn {
  std::string heading;
  bool number = false; ///< aligned to the right
};

/// The text as one line of its style: a line's end becomes a space, what a terminal obeys becomes
/// visible (harmless.hpp), and in Markdown what would be a column's end or a tag is written so that
/// it shows.
std::string escaped(const std::string& text, TextStyle style);

/// The text in lines of at most 100 columns, where its words allow it: the first after `indent`,
/// the others two columns further in.
std::string wrapped(const std::string& text, const std::string& indent);

/// The rows under the headings, escaped, each line ended by a newline. Every row has a text for
/// every column. paints: the colour of each row, or none.
std::string text_table(const std::vector<TextColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, TextStyle style,
                       const std::vector<Paint>& paints = {});

} // namespace clusterbench

// Columns of text, aligned for a terminal or as a Markdown table.
#pragma once

#include <string>
#include <vector>

namespace clusterbench {

enum class TextStyle { terminal, markdown };

struct TextColumn {
  std::string heading;
  bool number = false; ///< aligned to the right
};

/// The text as one line of its style: a line's end becomes a space, other control characters become
/// visible (\x1b), and in Markdown what would be a column's end or a tag is written so that it shows.
std::string escaped(const std::string& text, TextStyle style);

/// The rows under the headings, escaped, each line ended by a newline. Every row has a text for every column.
std::string text_table(const std::vector<TextColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, TextStyle style);

} // namespace clusterbench

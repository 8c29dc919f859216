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

/// The rows under the headings, each line ended by a newline. Every row has a text for every column.
std::string text_table(const std::vector<TextColumn>& columns,
                       const std::vector<std::vector<std::string>>& rows, TextStyle style);

} // namespace clusterbench

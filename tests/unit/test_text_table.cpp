// Columns of text, and what a name or a message from outside may do to them: nothing.
#include "harness/report/text_table.hpp"

#include <gtest/gtest.h>

namespace clusterbench {
namespace {

TEST(TextTable, AlignsColumns) {
  EXPECT_EQ(text_table({{"name", false}, {"ms", true}}, {{"a", "10"}, {"long", "1"}},
                       TextStyle::terminal),
            "  name  ms\n  a     10\n  long   1\n");
}

TEST(TextTable, ControlCharactersBecomeVisible) {
  const std::string table =
      text_table({{"name", false}}, {{"a\x1b[31m\x7f"}, {"two\nlines"}}, TextStyle::terminal);
  EXPECT_EQ(table, "  name\n  a\\x1b[31m\\x7f\n  two lines\n");
}

TEST(TextTable, SoDoWideControlsAndTurns) {
  EXPECT_EQ(escaped("a\u009b31m", TextStyle::terminal), "a\\u009b31m");
  EXPECT_EQ(escaped("a\u202eb\u2028c\u2066d\u2069", TextStyle::terminal),
            "a\\u202eb\\u2028c\\u2066d\\u2069");
  EXPECT_EQ(escaped("\u061c\u200b\u200f\ufeff\U000e0041", TextStyle::terminal),
            "\\u061c\\u200b\\u200f\\ufeff\\ue0041");
  EXPECT_EQ(escaped("\u00a0 \u2027 \u202f \u2065 \u206a \u200d", TextStyle::terminal),
            "\u00a0 \u2027 \u202f \u2065 \u206a \u200d");
  EXPECT_EQ(escaped("torn \xe2\x80", TextStyle::terminal), "torn \xe2\x80");
}

TEST(TextTable, MarkdownShowsBarsAndTags) {
  const std::string table = text_table({{"name", false}}, {{"|x|<script>"}}, TextStyle::markdown);
  EXPECT_NE(table.find("| \\|x\\|&lt;script> |"), std::string::npos) << table;
  EXPECT_EQ(escaped("|x|<script>", TextStyle::terminal), "|x|<script>");
}

TEST(TextTable, OtherLettersStay) {
  EXPECT_EQ(escaped("± µs ‡", TextStyle::markdown), "± µs ‡");
}

} // namespace
} // namespace clusterbench

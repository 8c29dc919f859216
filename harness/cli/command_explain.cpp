#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/explain/cell_shift.hpp"
#include "harness/explain/variant_text.hpp"
#include "harness/report/text_table.hpp"

#include <fmt/format.h>
#include <memory>

namespace clusterbench {
namespace {

struct ExplainArguments {
  std::vector<std::string> variants;
  std::vector<std::string> ledgers;
  std::string cell = "*";
  std::string source;
  bool markdown = false;
  bool no_diff = false;
};

// Headings, lists and blocks of text, for a terminal or as Markdown.
class Page {
public:
  explicit Page(bool markdown) : markdown_(markdown) {}

  void title(const std::string& text) const { fmt::print("{}{}\n", markdown_ ? "## " : "", text); }
  void heading(const std::string& text) const {
    fmt::print("\n{}{}\n", markdown_ ? "### " : "", text);
    fmt::print("{}", markdown_ ? "\n" : "");
  }
  void paragraph(const std::string& text) const {
    fmt::print("{}{}\n", markdown_ ? "\n" : "", text);
  }
  void block(const std::string& text, const char* language) const {
    if (markdown_) {
      fmt::print("```{}\n{}```\n", language, text);
    } else {
      fmt::print("{}", text);
    }
  }
  void table(const std::vector<TextColumn>& columns,
             const std::vector<std::vector<std::string>>& rows) const {
    fmt::print("{}",
               text_table(columns, rows, markdown_ ? TextStyle::markdown : TextStyle::terminal));
  }

private:
  bool markdown_;
};

std::string figure(std::optional<double> value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

// "2.10 x faster", of the time after over that before.
std::string change(std::optional<double> ratio) {
  if (!ratio || !(*ratio > 0.0)) {
    return "-";
  }
  return *ratio <= 1.0 ? fmt::format("{:.2f} x faster", 1.0 / *ratio)
                       : fmt::format("{:.2f} x slower", *ratio);
}

std::string change(std::optional<double> before, std::optional<double> after) {
  return change(before && after ? std::optional(*after / *before) : std::nullopt);
}

// "2.10 x faster [2.05, 2.17]", or of few samples or rounds "2.10 x faster (2.05 .. 2.17)".
std::string change(const Ratio& ratio) {
  const bool faster = ratio.ratio <= 1.0;
  const double low = faster ? 1.0 / ratio.interval.high : ratio.interval.low;
  const double high = faster ? 1.0 / ratio.interval.low : ratio.interval.high;
  return change(ratio.ratio) + (ratio.is_range ? fmt::format(" ({:.2f} .. {:.2f})", low, high)
                                               : fmt::format(" [{:.2f}, {:.2f}]", low, high));
}

void show_text(const VariantText& text, const Page& page) {
  page.heading(fmt::format("{}: {}", text.name, text.idea));
  if (text.file.empty()) {
    page.paragraph("(its source file was not found; --source names the folder that holds impls/)");
    return;
  }
  std::string header;
  for (const std::string& line : text.header) {
    header += line + "\n";
  }
  page.block(header, "text");
}

void show_shift(const CellShift& shift, const VariantText& before, const VariantText& after,
                const Page& page) {
  const Measured& a = shift.before;
  const Measured& b = shift.after;
  const bool threads = a.speaker().device == "cpu" && a.threads() > 1;
  page.heading(fmt::format("{} on {}{}", shift.cell, shift.machine,
                           threads ? fmt::format(", {} threads", a.threads()) : ""));
  const auto field = [](const Measured& cell, const char* name) {
    return figure(cell.median_of(name));
  };
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"ms per iteration", field(a, "ms_per_iteration"), field(b, "ms_per_iteration"),
                  change(shift.per_iteration)});
  rows.push_back(
      {"whole answer, ms", field(a, "whole_ms"), field(b, "whole_ms"), change(shift.whole)});
  for (const char* window : {"upload", "prepare", "download"}) {
    const std::string name = std::string(window) + "_ms";
    if (a.median_of(name) || b.median_of(name)) {
      rows.push_back({fmt::format("  of it {}, ms", window), field(a, name.c_str()),
                      field(b, name.c_str()), change(a.median_of(name), b.median_of(name))});
    }
  }
  rows.push_back({"run, ms", field(a, "median_ms"), field(b, "median_ms"),
                  change(a.median_of("median_ms"), b.median_of("median_ms"))});
  rows.push_back({"iterations", field(a, "iterations"), field(b, "iterations"), ""});
  const nlohmann::json limit = b.rounds.back().field("limit");
  rows.push_back({"% of limit" + (limit.is_null() ? "" : fmt::format(" ({})", std::string(limit))),
                  field(a, "percent_of_limit"), field(b, "percent_of_limit"), ""});
  for (const PhaseShift& phase : shift.phases) {
    rows.push_back({fmt::format("phase {}, ms per iteration", phase.phase), figure(phase.before),
                    figure(phase.after), change(phase.before, phase.after)});
  }
  page.table({{""}, {before.name, true}, {after.name, true}, {"change", true}}, rows);
  if (shift.per_iteration.paired) {
    page.paragraph("Times per iteration are compared start by start.");
  }
  if (shift.per_iteration.is_range) {
    page.paragraph("In round brackets stand the least and the greatest, of few samples or rounds.");
  }
  if (a.median_of("iterations") != b.median_of("iterations")) {
    page.paragraph("They stop at different passes: compare the times per iteration.");
  }
}

void show_figures(const ExplainArguments& arguments, const VariantText& before,
                  const VariantText& after, const Page& page) {
  if (arguments.ledgers.empty()) {
    page.paragraph("(figures come from ledgers: --from results/reference/...)");
    return;
  }
  const auto shifts = cell_shifts(arguments.ledgers, before.name, after.name, arguments.cell);
  for (const CellShift& shift : shifts.cells) {
    show_shift(shift, before, after, page);
  }
  for (const std::string& sentence : shifts.edited) {
    page.paragraph(sentence);
  }
  if (shifts.cells.empty()) {
    throw datasets::InputError(fmt::format(
        "--from, --cell {}: no such cell has right answers of both {} and {} on one machine",
        arguments.cell, before.name, after.name));
  }
}

void show_difference(const VariantText& before, const VariantText& after, const Page& page) {
  page.heading("Source");
  if (before.file.empty() || after.file.empty()) {
    page.paragraph("(no difference can be shown without both files)");
  } else if (before.file == after.file) {
    page.paragraph(fmt::format("Both are in {}.", after.file));
  } else {
    page.block(fmt::format("--- {}\n+++ {}\n{}", before.file, after.file,
                           unified_diff(before.code, after.code)),
               "diff");
  }
}

ExitCode explain(const ExplainArguments& arguments) {
  const auto sources = find_source_tree(arguments.source);
  const VariantText after = read_variant_text(arguments.variants.back(), sources);
  if (arguments.variants.size() == 1 && after.previous.empty()) {
    throw datasets::InputError(fmt::format(
        "explain: {} is a first rung; name the variant to compare it with", after.name));
  }
  const VariantText before = read_variant_text(
      arguments.variants.size() == 1 ? after.previous : arguments.variants.front(), sources);
  const Page page(arguments.markdown);
  page.title(fmt::format("{} -> {}", before.name, after.name));
  show_text(before, page);
  show_text(after, page);
  show_figures(arguments, before, after, page);
  if (!arguments.no_diff) {
    show_difference(before, after, page);
  }
  return ExitCode::ok;
}

} // namespace

void add_explain_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand(
      "explain", "Say what changed between two variants, from their files and ledgers");
  command
      ->add_option("variants", arguments->variants,
                   "Two variants, or one to be explained against its previous rung")
      ->expected(1, 2)
      ->required();
  command->add_option("--from", arguments->ledgers,
                      "Ledger or folder that holds one, for the figures (repeatable)");
  command
      ->add_option("--cell", arguments->cell,
                   "Shell glob of the cells to show: table/problem/precision")
      ->capture_default_str();
  command->add_option("--source", arguments->source,
                      "Source tree; by default the one around the program");
  command->add_flag("--no-diff", arguments->no_diff, "Leave out the difference of the sources");
  command->add_flag("--markdown", arguments->markdown, "As Markdown");
  command->callback([&action, arguments] { action = [arguments] { return explain(*arguments); }; });
}

} // namespace clusterbench

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

// "2.10 x faster", of the times before and after.
std::string change(std::optional<double> before, std::optional<double> after) {
  if (!before || !after || !(*before > 0.0) || !(*after > 0.0)) {
    return "-";
  }
  return *after <= *before ? fmt::format("{:.2f} x faster", *before / *after)
                           : fmt::format("{:.2f} x slower", *after / *before);
}

// "10.3 [10.1, 10.6]", or of few samples or rounds "10.3 (10.1 .. 10.6)".
std::string with_interval(const PooledRounds& time) {
  const auto& [low, high] = time.interval;
  return fmt::format("{:.4g} ", time.median) + (time.is_range
                                                    ? fmt::format("({:.4g} .. {:.4g})", low, high)
                                                    : fmt::format("[{:.4g}, {:.4g}]", low, high));
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
  page.heading(fmt::format("{} on {}{}", shift.cell, shift.machine,
                           shift.threads > 1 ? fmt::format(", {} threads", shift.threads) : ""));
  const CellFigures& a = shift.before;
  const CellFigures& b = shift.after;
  const auto percent = [](const CellFigures& figures) {
    return figures.percent_of_limit ? fmt::format("{:.1f}", *figures.percent_of_limit) : "-";
  };
  std::vector<std::vector<std::string>> rows = {
      {a.run_ms.is_range || b.run_ms.is_range ? "ms [95 %] or (least .. greatest)" : "ms [95 %]",
       with_interval(a.run_ms), with_interval(b.run_ms), change(a.run_ms.median, b.run_ms.median)},
      {"iterations", std::to_string(a.iterations), std::to_string(b.iterations), ""},
      {"ms per iteration", figure(a.ms_per_iteration), figure(b.ms_per_iteration),
       change(a.ms_per_iteration, b.ms_per_iteration)},
      {"% of limit" + (b.limit.empty() ? "" : fmt::format(" ({})", b.limit)), percent(a),
       percent(b), ""}};
  for (const PhaseShift& phase : shift.phases) {
    rows.push_back({fmt::format("phase {}, ms per iteration", phase.phase), figure(phase.before),
                    figure(phase.after), change(phase.before, phase.after)});
  }
  page.table({{""}, {before.name, true}, {after.name, true}, {"change", true}}, rows);
  if (a.iterations != b.iterations) {
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
  for (const CellShift& shift : shifts) {
    show_shift(shift, before, after, page);
  }
  if (shifts.empty()) {
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

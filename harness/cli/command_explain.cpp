#include "datasets/errors.hpp"
#include "harness/cli/commands.hpp"
#include "harness/cli/options.hpp"
#include "harness/report/digits.hpp"
#include "harness/report/explain/cell_shift.hpp"
#include "harness/report/text_table.hpp"
#include "harness/report/variant_text.hpp"
#include "harness/system/harmless.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <string_view>

namespace clusterbench {
namespace {

constexpr std::size_t kWidestName = 28; ///< columns of a heading

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
  explicit Page(TextStyle style) : style_(style), markdown_(style == TextStyle::markdown) {}

  void title(const std::string& text) const { fmt::print("{}{}\n", markdown_ ? "## " : "", text); }
  void heading(const std::string& text) const {
    fmt::print("\n{}", markdown_ ? fmt::format("### {}\n\n", text) : wrapped(text, ""));
  }
  void paragraph(const std::string& text) const {
    fmt::print("{}", markdown_ ? fmt::format("\n{}\n", text) : wrapped(text, ""));
  }
  void block(const std::string& raw_text, const char* language) const {
    const std::string text = harmless(raw_text);
    if (markdown_) {
      fmt::print("```{}\n{}```\n", language, text);
    } else {
      fmt::print("{}", std::string_view(language) == "diff" ? coloured(text) : text);
    }
  }
  void table(const std::vector<TextColumn>& columns,
             const std::vector<std::vector<std::string>>& rows,
             const std::vector<Paint>& paints) const {
    fmt::print("{}", text_table(columns, rows, style_, paints));
  }
  std::string painted(const std::string& text, Paint paint) const {
    return clusterbench::painted(text, paint, style_);
  }

private:
  // Lines that came in green, those that left in red, as `git diff` has them.
  std::string coloured(const std::string& difference) const {
    std::string text;
    for (std::size_t at = 0; at < difference.size();) {
      const std::size_t end = std::min(difference.find('\n', at), difference.size());
      const std::string line = difference.substr(at, end - at);
      text += painted(line, line.starts_with('+')   ? Paint::best
                            : line.starts_with('-') ? Paint::wrong
                                                    : Paint::plain) +
              "\n";
      at = end + 1;
    }
    return text;
  }

  TextStyle style_;
  bool markdown_;
};

std::string figure(std::optional<double> value) {
  return value ? with_digits(value, 3) : "-"; // of one recorded run, or of few
}

std::string count(std::optional<double> value) {
  return value ? fmt::format("{:g}", *value) : "-";
}

// "2.10 x faster", of the time after over that before.
std::string change(std::optional<double> ratio) {
  if (!ratio || !(*ratio > 0.0)) {
    return "-";
  }
  const double times = *ratio <= 1.0 ? 1.0 / *ratio : *ratio;
  constexpr double kLittle = 1.1; // of which two decimals say little
  return fmt::format("{} x {}",
                     times < kLittle ? fmt::format("{:.3f}", times) : with_digits(times, 3),
                     *ratio <= 1.0 ? "faster" : "slower");
}

// Of single figures, which tell no difference below the scatter [ms].
std::string change(std::optional<double> before, std::optional<double> after, double scatter) {
  if (before && after && std::abs(*after - *before) <= scatter) {
    return "no difference told";
  }
  return change(before && after ? std::optional(*after / *before) : std::nullopt);
}

bool tells_difference(const Ratio& ratio) {
  return ratio.interval.high < 1.0 || ratio.interval.low > 1.0;
}

// "2.10 x faster [2.05, 2.17]", "no difference told [0.97, 1.02]", or of few samples or rounds
// "2.10 x faster (2.05 .. 2.17)".
std::string change(const std::optional<Ratio>& of) {
  if (!of) {
    return "-";
  }
  const Ratio& ratio = *of;
  const bool faster = ratio.ratio <= 1.0 && tells_difference(ratio);
  const double low = faster ? 1.0 / ratio.interval.high : ratio.interval.low;
  const double high = faster ? 1.0 / ratio.interval.low : ratio.interval.high;
  const double times = faster ? 1.0 / ratio.ratio : ratio.ratio;
  const std::string text = ratio_text(times, {low, high}, ratio.is_range);
  const std::size_t interval = text.find(' ');
  return !tells_difference(ratio)
             ? "no difference told" + text.substr(interval)
             : text.substr(0, interval) + (faster ? " x faster" : " x slower") +
                   text.substr(interval);
}

// Green for faster, red for slower, where the interval leaves no doubt.
Paint paint_of(const Ratio& ratio) {
  return ratio.interval.high < 1.0  ? Paint::best
         : ratio.interval.low > 1.0 ? Paint::wrong
                                    : Paint::plain;
}

// "kmeans_simd against kmeans_serial, per iteration: 2.10 x faster to 3.52 x faster on 4 of 6
// cells; 1.20 x slower on 1 of 6 cells; no difference told on 1 of 6 cells".
void show_closing(const std::vector<CellShift>& shifts, const std::string& before,
                  const std::string& after, const Page& page) {
  std::vector<double> faster, slower;
  for (const CellShift& shift : shifts) {
    if (tells_difference(shift.per_iteration)) {
      (shift.per_iteration.ratio < 1.0 ? faster : slower).push_back(shift.per_iteration.ratio);
    }
  }
  const std::size_t untold = shifts.size() - faster.size() - slower.size();
  std::string text = fmt::format("\n{} against {}, per iteration: ", after, before);
  const auto add = [&](const std::vector<double>& ratios, Paint paint) {
    if (!ratios.empty()) {
      const auto [low, high] = std::ranges::minmax(ratios);
      const std::string range =
          change(low) == change(high) ? change(low) : change(low) + " to " + change(high);
      text += page.painted(fmt::format("{} on {} of {} cell{}", range, ratios.size(), shifts.size(),
                                       shifts.size() == 1 ? "" : "s"),
                           paint);
    }
  };
  add(faster, Paint::best);
  text += faster.empty() || slower.empty() ? "" : "; ";
  add(slower, Paint::wrong);
  if (untold > 0) {
    text +=
        fmt::format("{}no difference told on {} of {} cell{}", untold == shifts.size() ? "" : "; ",
                    untold, shifts.size(), shifts.size() == 1 ? "" : "s");
  }
  fmt::print("{}\n", text);
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
  const bool threads = a.representative().device == "cpu" && a.threads() > 1;
  page.heading(fmt::format("{} on {}{}", shift.cell, shift.machine,
                           threads ? fmt::format(", {} threads", a.threads()) : ""));
  const auto field = [](const Measured& cell, const char* name) {
    return figure(cell.median_of(name));
  };
  std::vector<std::vector<std::string>> rows;
  rows.push_back(
      {"ms per iteration", pass_ms_text(a), pass_ms_text(b), change(shift.per_iteration)});
  rows.push_back({"whole answer, ms", whole_ms_text(a), whole_ms_text(b), change(shift.whole)});
  for (const char* window : {"upload", "prepare", "download"}) {
    const std::string name = std::string(window) + "_ms";
    if (a.median_of(name) || b.median_of(name)) {
      rows.push_back({fmt::format("  of it {}, ms", window), field(a, name.c_str()),
                      field(b, name.c_str()),
                      change(a.median_of(name), b.median_of(name), shift.whole_scatter_ms)});
    }
  }
  rows.push_back({"run, ms", run_ms_text(a), run_ms_text(b), change(shift.run)});
  rows.push_back(
      {"iterations", count(a.median_of("iterations")), count(b.median_of("iterations")), ""});
  const nlohmann::json limit = b.rounds.back().field("limit");
  rows.push_back(
      {"% of model bound" + (limit.is_null() ? "" : fmt::format(" ({})", std::string(limit))),
       percent_of_bound_text(a), percent_of_bound_text(b), ""});
  // Where one has another phase, work of a name that both have may stand in it.
  const bool alike = std::ranges::all_of(
      shift.phases, [](const PhaseShift& phase) { return phase.before && phase.after; });
  for (const PhaseShift& phase : shift.phases) {
    rows.push_back({fmt::format("phase {}, ms per iteration", phase.phase), figure(phase.before),
                    figure(phase.after),
                    alike ? change(phase.before, phase.after, shift.pass_scatter_ms) : ""});
  }
  std::vector<Paint> paints(rows.size(), Paint::plain);
  paints.front() = paint_of(shift.per_iteration); // what counts
  page.table({{""},
              {shortened(before.name, kWidestName), true},
              {shortened(after.name, kWidestName), true},
              {"change", true}},
             rows, paints);
  if (!shift.phases.empty()) {
    page.paragraph("Phases are those of one recorded run of each, of the last round.");
  }
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
  show_closing(shifts.cells, before.name, after.name, page);
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
        "explain: {} improves on no other variant; name the one to compare it with", after.name));
  }
  const VariantText before = read_variant_text(
      arguments.variants.size() == 1 ? after.previous : arguments.variants.front(), sources);
  const Page page(text_style(arguments.markdown));
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
                   "Two variants, or one to be explained against the one that it improves on")
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
  command->callback([&action, arguments, command] {
    action = [arguments, command] {
      if (command->count("--cell") > 0 && arguments->ledgers.empty()) {
        throw datasets::InputError(
            "--cell chooses among the cells of ledgers: name these with --from");
      }
      return explain(*arguments);
    };
  });
}

} // namespace clusterbench

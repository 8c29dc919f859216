#include "harness/report/quality/quality_text.hpp"

#include "harness/report/digits.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace clusterbench {
namespace {

constexpr std::size_t kWidestName = 38; ///< columns, on a terminal

// Of medians over few starts: three digits.
std::string number(double value) {
  return std::isfinite(value) ? with_digits(value, 3) : "never";
}

std::string passes(double median) {
  return std::isfinite(median) ? fmt::format("{:g}", median) : "never";
}

// As a line of Markdown, or in lines that fit a terminal.
std::string paragraph(const std::string& text, TextStyle style) {
  return style == TextStyle::markdown ? text + "\n" : wrapped(text, "");
}

std::string percent(double share) {
  return fmt::format("{:.3g} %", 100.0 * share);
}

// Threads, GPUs and ranks are said where solvers differ by them.
std::string solver_name(const QualityReport& report, std::size_t index) {
  std::set<int> threads, gpus, ranks;
  for (const Solver& solver : report.attempts.solvers) {
    threads.insert(solver.threads);
    gpus.insert(solver.gpus);
    ranks.insert(solver.ranks);
  }
  const Solver& solver = report.attempts.solvers[index];
  std::string name = fmt::format("{} {}", solver.variant, solver.precision);
  name += gpus.size() > 1 && solver.gpus > 0 ? fmt::format(", {} GPUs", solver.gpus) : "";
  name += ranks.size() > 1 && solver.ranks > 0 ? fmt::format(", {} ranks", solver.ranks) : "";
  return threads.size() > 1
             ? fmt::format("{}, {} thread{}", name, solver.threads, solver.threads == 1 ? "" : "s")
             : name;
}

std::string heading(const QualityReport& report, std::size_t index, TextStyle style) {
  const bool markdown = style == TextStyle::markdown;
  const QualityProblem& problem = report.attempts.problems[index];
  const BestKnown& best = report.best[index];
  const std::string mark = markdown ? "**" : "";
  std::string found = "given";
  if (best.attempt) {
    const Attempt& attempt = report.attempts.attempts[*best.attempt];
    found =
        fmt::format("found by {} from {}", solver_name(report, attempt.solver), attempt.start.text);
  }
  return paragraph(
             fmt::format(
                 "{}{}, k = {}{}: {} points in {} dimensions, rule {}, at most {} passes; best "
                 "known inertia {:.9g}, {}",
                 mark, problem.data, problem.k, mark, problem.n, problem.d, problem.stop,
                 problem.max_iterations, *best.inertia, found),
             style) +
         (markdown ? "\n" : "");
}

// The least expected time of each quality on a problem, kNever where nobody gets there.
std::map<double, double> least_times(const QualityReport& report, std::size_t problem) {
  std::map<double, double> least;
  for (const StartsSummary& summary : report.summaries) {
    if (summary.problem == problem) {
      double& known = least.try_emplace(summary.within, kNever).first->second;
      known = std::min(known, summary.restarts_ms);
    }
  }
  return least;
}

std::string problem_table(const QualityReport& report, std::size_t problem, TextStyle style) {
  const std::vector<TextColumn> columns = {
      {"starts"},       {"variant"},           {"within", true},      {"reached", true},
      {"passes", true}, {"ms, 1 start", true}, {"ms, restarts", true}};
  const std::map<double, double> least = least_times(report, problem);
  std::vector<std::vector<std::string>> rows;
  std::vector<Paint> paints;
  for (const StartsSummary& summary : report.summaries) {
    if (summary.problem != problem) {
      continue;
    }
    const std::string name = solver_name(report, summary.solver);
    rows.push_back(
        {fmt::format("{} × {}", summary.starts, summary.init),
         style == TextStyle::markdown ? name : shortened(name, kWidestName),
         percent(summary.within), fmt::format("{} of {}", summary.reached, summary.starts),
         passes(summary.median_passes), number(summary.median_ms), number(summary.restarts_ms)});
    paints.push_back(!std::isfinite(summary.restarts_ms)               ? Paint::refused
                     : summary.restarts_ms == least.at(summary.within) ? Paint::best
                                                                       : Paint::plain);
  }
  return text_table(columns, rows, style, paints);
}

// The fastest to each quality on each problem, in a few lines.
std::string closing(const QualityReport& report, TextStyle style) {
  constexpr std::size_t kMost = 10;
  std::vector<std::vector<std::string>> lines;
  for (const StartsSummary& summary : report.summaries) {
    const double least = least_times(report, summary.problem).at(summary.within);
    if (std::isfinite(least) && summary.restarts_ms == least) {
      const QualityProblem& problem = report.attempts.problems[summary.problem];
      lines.push_back({shortened(fmt::format("{}, k = {}", problem.data, problem.k), 30),
                       percent(summary.within), shortened(solver_name(report, summary.solver), 34),
                       summary.init, number(summary.restarts_ms)});
    }
  }
  const std::size_t left = lines.size() > kMost ? lines.size() - kMost : 0;
  lines.resize(lines.size() - left);
  if (lines.empty()) {
    return "Nothing reaches any of the qualities.\n";
  }
  return text_table({{"fastest to quality on"},
                     {"within", true},
                     {"variant"},
                     {"starts"},
                     {"ms, restarts", true}},
                    lines, style, std::vector<Paint>(lines.size(), Paint::best)) +
         (left == 0 ? "" : fmt::format("  and {} more above\n", left));
}

std::string profile_heading(const QualityProfile& entry, TextStyle style) {
  const bool one = entry.measure == QualityMeasure::one_start;
  const bool markdown = style == TextStyle::markdown;
  const std::string mark = markdown ? "**" : "";
  return paragraph(fmt::format("{}Performance profile, within {} of the best known inertia, {}{}: "
                               "share of {} {} on which "
                               "a variant needs at most so many times the least time{}",
                               mark, percent(entry.within), one ? "one start" : "with restarts",
                               mark, entry.profile.instances,
                               one ? "initial states" : "problems and initialisations",
                               entry.profile.unsolved == 0
                                   ? ""
                                   : fmt::format("; none reaches {}", entry.profile.unsolved)),
                   style) +
         (markdown ? "\n" : "");
}

std::string profile_table(const QualityReport& report, const Profile& profile, TextStyle style) {
  std::vector<TextColumn> columns = {{"variant"}};
  for (const double tau : kTaus) {
    columns.push_back({fmt::format("{}×", tau), true});
  }
  columns.push_back({"ever", true});
  std::vector<std::vector<std::string>> rows;
  for (std::size_t solver = 0; solver < profile.ratios.size(); ++solver) {
    std::vector<std::string>& row = rows.emplace_back();
    const std::string name = solver_name(report, solver);
    row.push_back(style == TextStyle::markdown ? name : shortened(name, kWidestName));
    for (const double tau : kTaus) {
      row.push_back(percent(profile.rho(solver, tau)));
    }
    row.push_back(percent(profile.rho(solver, kNever)));
  }
  return text_table(columns, rows, style);
}

} // namespace

std::string quality_text(const QualityReport& report, TextStyle style) {
  const bool markdown = style == TextStyle::markdown;
  std::string text;
  for (std::size_t problem = 0; problem < report.attempts.problems.size(); ++problem) {
    if (report.best[problem].inertia) {
      text += heading(report, problem, style) + problem_table(report, problem, style) + "\n";
    }
  }
  text += paragraph(
              "Passes and ms, 1 start: medians over the starts, with those that never get there. "
              "Ms, restarts: expected time of starting again in the order of seeds until one gets "
              "there, over the cyclic orders. Times are of whole answers: upload, prepare, passes, "
              "download.",
              style) +
          "\n";
  for (const QualityProfile& entry : report.profiles) {
    if (entry.profile.instances > 0) {
      text += profile_heading(entry, style) + profile_table(report, entry.profile, style) + "\n";
    }
  }
  for (const std::string& note : report.notes) {
    text += markdown ? fmt::format("- {}\n", note) : wrapped(note, "  ");
  }
  std::vector<std::string> machines;
  for (const Machine& machine : report.machines) {
    const std::string days = machine.days();
    machines.push_back(days.empty() ? machine.name : fmt::format("{} ({})", machine.name, days));
  }
  text += report.notes.empty() ? "" : "\n";
  text += paragraph(fmt::format("Measured on {}.", fmt::join(machines, "; ")), style);
  return markdown ? text : text + "\n" + closing(report, style);
}

} // namespace clusterbench

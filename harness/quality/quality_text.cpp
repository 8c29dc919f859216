#include "harness/quality/quality_text.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace clusterbench {
namespace {

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.4g}", value) : "never";
}

std::string percent(double share) {
  return fmt::format("{:.3g} %", 100.0 * share);
}

// Threads are said where solvers differ by them.
std::string solver_name(const QualityReport& report, std::size_t index) {
  std::set<int> threads;
  for (const Solver& solver : report.attempts.solvers) {
    threads.insert(solver.threads);
  }
  const Solver& solver = report.attempts.solvers[index];
  const std::string name = fmt::format("{} {}", solver.variant, solver.precision);
  return threads.size() > 1
             ? fmt::format("{}, {} thread{}", name, solver.threads, solver.threads == 1 ? "" : "s")
             : name;
}

std::string heading(const QualityReport& report, std::size_t index, bool markdown) {
  const QualityProblem& problem = report.attempts.problems[index];
  const BestKnown& best = report.best[index];
  const std::string mark = markdown ? "**" : "";
  std::string found = "given";
  if (best.attempt) {
    const Attempt& attempt = report.attempts.attempts[*best.attempt];
    found =
        fmt::format("found by {} from {}", solver_name(report, attempt.solver), attempt.start.text);
  }
  return fmt::format("{}{}, k = {}{}: {} points in {} dimensions, rule {}, at most {} passes; best "
                     "known inertia {:.9g}, {}\n{}",
                     mark, problem.data, problem.k, mark, problem.n, problem.d, problem.stop,
                     problem.max_iterations, *best.inertia, found, markdown ? "\n" : "");
}

std::string problem_table(const QualityReport& report, std::size_t problem, TextStyle style) {
  const std::vector<TextColumn> columns = {{"starts"},
                                           {"variant"},
                                           {"within", true},
                                           {"reached", true},
                                           {"passes", true},
                                           {"ms, one start", true},
                                           {"ms with restarts", true}};
  std::vector<std::vector<std::string>> rows;
  for (const StartsSummary& summary : report.summaries) {
    if (summary.problem == problem) {
      rows.push_back({fmt::format("{} × {}", summary.starts, summary.init),
                      solver_name(report, summary.solver), percent(summary.within),
                      fmt::format("{} of {}", summary.reached, summary.starts),
                      number(summary.median_passes), number(summary.median_ms),
                      number(summary.restarts_ms)});
    }
  }
  return text_table(columns, rows, style);
}

std::string profile_heading(const QualityProfile& entry, bool markdown) {
  const bool one = entry.measure == QualityMeasure::one_start;
  const std::string mark = markdown ? "**" : "";
  return fmt::format(
      "{}Performance profile, within {} of the best known inertia, {}{}: share of {} {} on which a "
      "variant needs at most so many times the least time{}\n{}",
      mark, percent(entry.within), one ? "one start" : "with restarts", mark,
      entry.profile.instances, one ? "initial states" : "problems and initialisations",
      entry.profile.unsolved == 0 ? "" : fmt::format("; none reaches {}", entry.profile.unsolved),
      markdown ? "\n" : "");
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
    row.push_back(solver_name(report, solver));
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
      text += heading(report, problem, markdown) + problem_table(report, problem, style) + "\n";
    }
  }
  text += "passes and ms, one start: medians over the starts, with those that never get there; ms "
          "with restarts: expected time\nof starting again in the order of seeds until one gets "
          "there, over the cyclic orders. Times are of whole answers: upload, prepare, passes, "
          "download.\n\n";
  for (const QualityProfile& entry : report.profiles) {
    if (entry.profile.instances > 0) {
      text += profile_heading(entry, markdown) + profile_table(report, entry.profile, style) + "\n";
    }
  }
  for (const std::string& note : report.notes) {
    text += fmt::format("{}{}\n", markdown ? "- " : "  ", note);
  }
  std::vector<std::string> machines;
  for (const Machine& machine : report.machines) {
    const std::string days = machine.days();
    machines.push_back(days.empty() ? machine.name : fmt::format("{} ({})", machine.name, days));
  }
  return text + fmt::format("{}Measured on {}.\n", report.notes.empty() ? "" : "\n",
                            fmt::join(machines, "; "));
}

} // namespace clusterbench

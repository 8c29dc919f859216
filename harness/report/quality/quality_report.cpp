#include "harness/report/quality/quality_report.hpp"

#include "datasets/errors.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <tuple>

namespace clusterbench {
namespace {

using datasets::InputError;

bool same_data(const QualityProblem& a, const QualityProblem& b) {
  return std::tie(a.data_sha256, a.weights_sha256, a.n, a.k) ==
         std::tie(b.data_sha256, b.weights_sha256, b.n, b.k);
}

std::string to_string(const GivenBest& known) {
  const std::string rows = known.n == 0 ? "" : fmt::format(",{}", known.n);
  return fmt::format("--best {}:{}{}={}", known.data, known.k, rows, known.inertia);
}

// Data of which only the first rows are taken are another problem, with another inertia.
void take_given(const GivenBest& known, const std::vector<QualityProblem>& problems,
                std::vector<BestKnown>& best) {
  const QualityProblem* first = nullptr;
  for (std::size_t p = 0; p < best.size(); ++p) {
    const QualityProblem& problem = problems[p];
    if (problem.data != known.data || problem.k != known.k ||
        (known.n != 0 && problem.n != known.n)) {
      continue;
    }
    if (first != nullptr && problem.n != first->n) {
      throw InputError(fmt::format("{0}: there are problems of {1} and of {2} rows of {3}; "
                                   "{3}:{4},{1}={5} names one of them",
                                   to_string(known), first->n, problem.n, known.data, known.k,
                                   known.inertia));
    }
    first = &problem;
    if (!best[p].inertia || known.inertia < *best[p].inertia) {
      best[p] = {known.inertia, std::nullopt};
    }
  }
  if (first == nullptr) {
    throw InputError(fmt::format("{}: there is no problem of that data {}", to_string(known),
                                 known.n == 0 ? "and k" : "with that k and number of rows"));
  }
}

std::vector<BestKnown> best_known(const Attempts& all, const std::vector<GivenBest>& given) {
  std::vector<BestKnown> best(all.problems.size());
  for (std::size_t p = 0; p < best.size(); ++p) {
    for (std::size_t a = 0; a < all.attempts.size(); ++a) {
      const Attempt& attempt = all.attempts[a];
      if (!attempt.ok() || !same_data(all.problems[attempt.problem], all.problems[p])) {
        continue;
      }
      for (const double inertia : attempt.inertia) {
        if (std::isfinite(inertia) && (!best[p].inertia || inertia < *best[p].inertia)) {
          best[p] = {inertia, a};
        }
      }
    }
  }
  for (const GivenBest& known : given) {
    take_given(known, all.problems, best);
  }
  return best;
}

// Every solver from every start of a problem; where it was not run nothing is known of it.
class Grid {
public:
  explicit Grid(const Attempts& all) : starts_(all.problems.size()) {
    for (const Attempt& attempt : all.attempts) {
      starts_[attempt.problem].insert(attempt.start);
      by_place_[{attempt.problem, attempt.start, attempt.solver}] = &attempt;
    }
  }
  /// By initialisation, then seed.
  const std::set<StartState>& starts(std::size_t problem) const { return starts_[problem]; }

  const Attempt* find(std::size_t problem, const StartState& start, std::size_t solver) const {
    const auto found = by_place_.find({problem, start, solver});
    return found == by_place_.end() ? nullptr : found->second;
  }

private:
  std::vector<std::set<StartState>> starts_;
  std::map<std::tuple<std::size_t, StartState, std::size_t>, const Attempt*> by_place_;
};

struct Times {
  std::vector<std::vector<double>> one_start, restarts; ///< [instances][solvers]
};

// All times of one quality; the summaries come along.
Times times_within(double within, const Grid& grid, QualityReport& report) {
  Times times;
  const std::size_t solvers = report.attempts.solvers.size();
  for (std::size_t p = 0; p < report.attempts.problems.size(); ++p) {
    if (!report.best[p].inertia) {
      continue;
    }
    const double goal = *report.best[p].inertia * (1.0 + within);
    std::map<std::string, std::vector<StartState>> by_init;
    for (const StartState& start : grid.starts(p)) {
      by_init[start.init].push_back(start);
    }
    for (const auto& [init, starts] : by_init) {
      const std::size_t first = times.one_start.size();
      times.one_start.resize(first + starts.size(), std::vector<double>(solvers, kNever));
      std::vector<double>& restarts = times.restarts.emplace_back(solvers, kNever);
      for (std::size_t solver = 0; solver < solvers; ++solver) {
        StartsSummary summary{.problem = p, .solver = solver, .init = init, .within = within};
        std::vector<StartCost> costs;
        std::vector<double> passes, ms;
        for (std::size_t i = 0; i < starts.size(); ++i) {
          const Attempt* attempt = grid.find(p, starts[i], solver);
          const Reached reached = attempt == nullptr ? Reached{} : time_to_quality(*attempt, goal);
          const bool timed = attempt != nullptr && attempt->ok();
          costs.push_back({timed ? attempt->around_ms + attempt->run_ms : kNever, reached.ms});
          passes.push_back(reached.passes == 0 ? kNever : static_cast<double>(reached.passes));
          ms.push_back(reached.ms);
          times.one_start[first + i][solver] = reached.ms;
          summary.reached += reached.passes == 0 ? 0 : 1;
        }
        summary.starts = starts.size();
        summary.median_passes = median_or_never(passes);
        summary.median_ms = median_or_never(ms);
        summary.restarts_ms = restarts[solver] = time_with_restarts(costs);
        report.summaries.push_back(summary);
      }
    }
  }
  return times;
}

// One sentence for each kind of thing that befell a solver, with the number of starts and the first
// start's details.
class Findings {
public:
  void add(const std::string& what, const std::string& details = "") {
    auto& [count, first] = found_[what];
    first = count++ == 0 ? details : first;
  }
  void put_into(std::vector<std::string>& notes) const {
    for (const auto& [what, entry] : found_) {
      const auto& [count, details] = entry;
      notes.push_back(fmt::format("{} ({} start{}){}{}", what, count, count == 1 ? "" : "s",
                                  details.empty() ? "" : ": ", details));
    }
  }

private:
  std::map<std::string, std::pair<std::size_t, std::string>> found_;
};

void add_notes(const Grid& grid, QualityReport& report) {
  Findings findings;
  for (std::size_t p = 0; p < report.attempts.problems.size(); ++p) {
    const QualityProblem& problem = report.attempts.problems[p];
    if (!report.best[p].inertia) {
      report.notes.push_back(fmt::format("{}, k = {}, is left out: no right run of it was judged "
                                         "as a whole, so that no inertia is known",
                                         problem.data, problem.k));
      continue;
    }
    for (const StartState& start : grid.starts(p)) {
      for (std::size_t s = 0; s < report.attempts.solvers.size(); ++s) {
        const Solver& solver = report.attempts.solvers[s];
        const std::string name = fmt::format("{} {}", solver.variant, solver.precision);
        const Attempt* attempt = grid.find(p, start, s);
        if (attempt == nullptr) {
          findings.add(name + ": not run, counts as never");
        } else if (!attempt->ok()) {
          findings.add(fmt::format("{}: {}, counts as never", name, attempt->status),
                       attempt->message);
        } else if (!attempt->recorded &&
                   !std::isfinite(attempt->inertia.empty() ? std::nan("")
                                                           : attempt->inertia.back())) {
          findings.add(name + ": its run was not judged as a whole, counts as never");
        } else if (!attempt->recorded) {
          findings.add(name + ": its passes are not recorded, so that it gets anywhere only at the "
                              "end of its run");
        }
      }
    }
  }
  findings.put_into(report.notes);
}

} // namespace

GivenBest parse_best(std::string_view text) {
  const auto equals = text.rfind('=');
  const auto colon = text.substr(0, equals).rfind(':');
  GivenBest best;
  const auto number = [](std::string_view part, auto& value) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc{} && end == part.data() + part.size();
  };
  const bool has_both = equals != std::string_view::npos && colon != std::string_view::npos;
  const std::string_view sizes = has_both ? text.substr(colon + 1, equals - colon - 1) : "";
  const auto comma = sizes.find(',');
  const bool has_rows = comma != std::string_view::npos;
  if (!number(sizes.substr(0, comma), best.k) ||
      (has_rows && (!number(sizes.substr(comma + 1), best.n) || best.n == 0)) ||
      !number(text.substr(equals + 1), best.inertia) || !(best.inertia >= 0.0) ||
      !std::isfinite(best.inertia)) {
    throw InputError(
        fmt::format("--best {}: DATA:K=INERTIA is needed, such as article002:8=1.5e7, or "
                    "DATA:K,ROWS=INERTIA where several --take of the data are there",
                    text));
  }
  best.data = text.substr(0, colon);
  return best;
}

QualityReport make_quality_report(Attempts attempts, std::vector<Machine> machines,
                                  const std::vector<GivenBest>& given) {
  QualityReport report;
  report.machines = std::move(machines);
  report.attempts = std::move(attempts);
  report.best = best_known(report.attempts, given);
  const Grid grid(report.attempts);
  std::vector<QualityProfile> restarts;
  for (const double within : kWithin) {
    const Times times = times_within(within, grid, report);
    report.profiles.push_back(
        {QualityMeasure::one_start, within, performance_profile(times.one_start)});
    restarts.push_back({QualityMeasure::restarts, within, performance_profile(times.restarts)});
  }
  std::ranges::move(restarts, std::back_inserter(report.profiles));
  std::ranges::stable_sort(report.summaries, {}, [](const StartsSummary& summary) {
    return std::tuple(summary.problem, summary.init, summary.solver);
  });
  add_notes(grid, report);
  std::ranges::move(report.attempts.notes, std::back_inserter(report.notes));
  for (const Attempt& attempt : report.attempts.attempts) {
    report.exit_code = graver(report.exit_code, exit_code_of(attempt.status));
  }
  return report;
}

} // namespace clusterbench

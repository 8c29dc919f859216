#include "harness/report/quality/quality_json.hpp"

#include <cmath>

namespace clusterbench {
namespace {

using nlohmann::json;

json finite_or_null(double value) {
  return std::isfinite(value) ? json(value) : json();
}

json problem_json(const QualityProblem& problem, const BestKnown& best) {
  json entry = {{"data", problem.data},
                {"data_sha256", problem.data_sha256},
                {"n", problem.n},
                {"d", problem.d},
                {"k", problem.k},
                {"stop", problem.stop},
                {"max_iterations", problem.max_iterations},
                {"best_inertia", best.inertia ? json(*best.inertia) : json()},
                {"best_from", !best.inertia ? json() : json(best.attempt ? "found" : "given")}};
  if (!problem.weights_sha256.empty()) {
    entry["weights_sha256"] = problem.weights_sha256;
  }
  return entry;
}

json attempt_json(const Attempt& attempt, const BestKnown& best) {
  json entry = {{"problem", attempt.problem},
                {"solver", attempt.solver},
                {"init", attempt.start.text},
                {"status", attempt.status}};
  if (!attempt.ok()) {
    entry["message"] = attempt.message;
    return entry;
  }
  entry["passes"] = attempt.inertia.size();
  entry["recorded"] = attempt.recorded;
  entry["around_ms"] = attempt.around_ms;
  entry["run_ms"] = attempt.run_ms;
  entry["final_inertia"] =
      attempt.inertia.empty() ? json() : finite_or_null(attempt.inertia.back());
  entry["reached"] = json::array();
  for (const double within : kWithin) {
    const Reached reached =
        best.inertia ? time_to_quality(attempt, *best.inertia * (1.0 + within)) : Reached{};
    entry["reached"].push_back({{"within", within},
                                {"passes", reached.passes == 0 ? json() : json(reached.passes)},
                                {"ms", finite_or_null(reached.ms)}});
  }
  return entry;
}

json profile_json(const QualityProfile& entry) {
  json lines = json::array();
  for (std::size_t solver = 0; solver < entry.profile.ratios.size(); ++solver) {
    json rho = json::array();
    for (const double tau : kTaus) {
      rho.push_back(entry.profile.rho(solver, tau));
    }
    lines.push_back({{"solver", solver}, {"ratios", entry.profile.ratios[solver]}, {"rho", rho}});
  }
  return {{"measure", entry.measure == QualityMeasure::one_start ? "one_start" : "restarts"},
          {"within", entry.within},
          {"instances", entry.profile.instances},
          {"unsolved", entry.profile.unsolved},
          {"lines", lines}};
}

} // namespace

json to_json(const QualityReport& report) {
  json machines = json::array();
  for (const Machine& machine : report.machines) {
    json entry = {{"name", machine.name}, {"ledgers", machine.ledgers}};
    if (!machine.last_day.empty()) {
      entry["date"] = machine.last_day;
    }
    if (machine.first_day != machine.last_day) {
      entry["first_date"] = machine.first_day;
    }
    machines.push_back(entry);
  }
  json problems = json::array();
  for (std::size_t p = 0; p < report.attempts.problems.size(); ++p) {
    problems.push_back(problem_json(report.attempts.problems[p], report.best[p]));
  }
  json solvers = json::array();
  for (const Solver& solver : report.attempts.solvers) {
    json& entry = solvers.emplace_back(json{
        {"variant", solver.variant}, {"precision", solver.precision}, {"threads", solver.threads}});
    if (solver.gpus > 0) {
      entry["gpus"] = solver.gpus;
    }
    if (solver.ranks > 0) {
      entry["ranks"] = solver.ranks;
    }
  }
  json attempts = json::array();
  for (const Attempt& attempt : report.attempts.attempts) {
    attempts.push_back(attempt_json(attempt, report.best[attempt.problem]));
  }
  json summaries = json::array();
  for (const StartsSummary& summary : report.summaries) {
    summaries.push_back({{"problem", summary.problem},
                         {"solver", summary.solver},
                         {"init", summary.init},
                         {"within", summary.within},
                         {"starts", summary.starts},
                         {"reached", summary.reached},
                         {"median_passes", finite_or_null(summary.median_passes)},
                         {"median_ms", finite_or_null(summary.median_ms)},
                         {"restarts_ms", finite_or_null(summary.restarts_ms)}});
  }
  json profiles = json::array();
  for (const QualityProfile& entry : report.profiles) {
    profiles.push_back(profile_json(entry));
  }
  return {{"type", "quality"},      {"schema", kQualitySchema},
          {"machines", machines},   {"within", kWithin},
          {"taus", kTaus},          {"problems", problems},
          {"solvers", solvers},     {"attempts", attempts},
          {"summaries", summaries}, {"profiles", profiles},
          {"notes", report.notes}};
}

} // namespace clusterbench

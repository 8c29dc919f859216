#include "harness/report/submission/submission_report.hpp"

#include "harness/ledger/limits.hpp"
#include "harness/report/ranking_table.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using nlohmann::json;

constexpr std::size_t kResamples = 1000; ///< of a ratio's interval

std::optional<TimeFigure> figure_of(const Costs& costs) {
  if (costs.rounds.empty()) {
    return std::nullopt;
  }
  const PooledRounds pooled = pool_rounds(costs.ms());
  return TimeFigure{pooled.median, pooled.interval, pooled.is_range};
}

std::vector<std::pair<std::string, double>> phases_of(const Row& row) {
  const json phases = row.field("phases_ms");
  double sum = 0.0;
  std::vector<std::pair<std::string, double>> shares;
  if (phases.is_object()) {
    for (const auto& [name, ms] : phases.items()) {
      if (ms.is_number() && ms.get<double>() > 0.0) {
        shares.emplace_back(name, ms.get<double>());
        sum += ms.get<double>();
      }
    }
  }
  for (auto& [name, share] : shares) {
    share *= 100.0 / sum;
  }
  std::ranges::sort(shares, std::greater(), &std::pair<std::string, double>::second);
  return shares;
}

std::optional<OverOther> over(const ReportCell& own, const ReportCell* other) {
  if (other == nullptr) {
    return std::nullopt;
  }
  return OverOther{other->spec.variant,
                   ratio_of(pass_costs(*other->measured), pass_costs(*own.measured), kResamples)};
}

// One sentence: the cells of a judgement have one device, one number of threads and one probe.
std::string why_no_bound(const Row& row) {
  const json& limits = row.header->line.at("limits");
  std::string why = why_no_limit(json(row), limits);
  if (limits.empty()) {
    const json words = row.header->line.value("command_line", json::array());
    const bool unwanted = std::ranges::find(words, json("--no-probe")) != words.end();
    why = unwanted ? "--no-probe was given" : "the probe of the machine's rates failed";
  }
  return why.empty() ? "" : fmt::format("No percentage of the model bound is known: {}.", why);
}

CompanyCell company_cell(const ReportCell& cell) {
  CompanyCell entry;
  entry.variant = cell.spec.variant;
  entry.verified = verification_text(cell);
  entry.rank = cell.by_iteration.rank;
  entry.unranked = cell.by_iteration.unranked;
  if (cell.measured) {
    entry.per_iteration = figure_of(pass_costs(*cell.measured));
    entry.whole = figure_of(whole_costs(*cell.measured));
    entry.percent_of_limit = cell.measured->median_of("percent_of_limit");
  }
  return entry;
}

const Row* row_of(const CellSpec& cell, const std::vector<Row>& rows) {
  const auto found = std::ranges::find_if(rows, [&](const Row& row) {
    return row.variant == cell.variant && row.precision == to_string(cell.precision) &&
           row.problem().value("id", "") == cell.problem_id;
  });
  return found == rows.end() ? nullptr : &*found;
}

SubmissionCell submission_cell(const ReportCell& own, const TableReport& report,
                               const std::vector<Row>& rows) {
  SubmissionCell cell;
  cell.problem = own.spec.problem_id;
  cell.precision = to_string(own.spec.precision);
  cell.verified = verification_text(own);
  cell.rank = own.by_iteration.rank;
  cell.unranked = own.by_iteration.unranked;
  std::vector<const ReportCell*> ranked;
  for (const ReportCell* each : ranked_cells(report, cell.problem, own.spec.precision)) {
    cell.company.push_back(company_cell(*each));
    if (each->by_iteration.rank > 0 && each->approximate() == own.approximate()) {
      ranked.push_back(each);
    }
  }
  cell.ranked = ranked.size();
  if (!own.measured) {
    const Row* const row = row_of(own.spec, rows);
    cell.status = row == nullptr ? "not run" : row->status;
    cell.message = row == nullptr ? "the judgement was interrupted" : row->message;
    return cell;
  }
  const Row& row = own.measured->representative();
  cell.status = row.status;
  cell.message = row.message;
  cell.device = row.device;
  cell.threads = own.measured->threads();
  cell.per_iteration = figure_of(pass_costs(*own.measured));
  cell.whole = figure_of(whole_costs(*own.measured));
  cell.limit_ms = own.measured->median_of("limit_ms_per_iteration");
  cell.percent_of_limit = own.measured->median_of("percent_of_limit");
  if (const json limit = row.field("limit"); limit.is_string()) {
    cell.limit = limit;
  }
  cell.phases = phases_of(row);
  if (cell.rank > 0) { // `ranked` is in the order of the ranks
    const auto at = static_cast<std::size_t>(std::ranges::find(ranked, &own) - ranked.begin());
    const ReportCell* const best = at > 0 ? ranked[0] : ranked.size() > 1 ? ranked[1] : nullptr;
    const ReportCell* const next = at > 0 ? ranked[at - 1] : best;
    cell.over_best = over(own, best);
    cell.over_next = over(own, next);
  }
  return cell;
}

} // namespace

std::vector<SubmissionReport> make_submission_reports(const TableReport& report,
                                                      const std::vector<std::string>& variants,
                                                      const std::vector<Row>& rows) {
  std::vector<SubmissionReport> reports;
  for (const std::string& variant : variants) {
    SubmissionReport& submitted = reports.emplace_back();
    submitted.variant = variant;
    // A cell that was refused says nothing against those that are right.
    std::string exact, otherwise;
    ExitCode gravest = ExitCode::ok;
    for (const ReportCell& cell : report.cells) {
      if (cell.spec.variant != variant) {
        continue;
      }
      SubmissionCell& own = submitted.cells.emplace_back(submission_cell(cell, report, rows));
      if (const Row* const row = row_of(cell.spec, rows); row != nullptr) {
        const json origin = row->field("submission");
        submitted.origin = origin.is_null() ? submitted.origin : origin;
      }
      if (own.per_iteration && !own.percent_of_limit && submitted.no_bound.empty()) {
        submitted.no_bound = why_no_bound(cell.measured->representative());
      }
      if (own.status == "ok") {
        exact = cell.approximate() ? "approximate" : "right";
        continue;
      }
      const ExitCode code = exit_code_of(own.status);
      if (otherwise.empty() || (graver(code, gravest) == code && code != gravest)) {
        gravest = code;
        otherwise = own.status;
        submitted.message = fmt::format("{}: {}", own.problem, own.message);
      }
    }
    const bool is_right = !exact.empty() && gravest == ExitCode::ok;
    submitted.verdict = is_right ? exact : otherwise;
    submitted.message = is_right ? "" : submitted.message;
    submitted.advice = advice_for(submitted.cells);
  }
  return reports;
}

} // namespace clusterbench

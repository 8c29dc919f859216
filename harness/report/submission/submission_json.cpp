#include "harness/report/submission/submission_text.hpp"

#include <cmath>

namespace clusterbench {
namespace {

using nlohmann::json;

void put_time(json& object, const char* key, const std::optional<TimeFigure>& time) {
  if (time) {
    object[key] = {{"ms", time->ms},
                   {"interval", {time->interval.low, time->interval.high}},
                   {"interval_is_range", time->is_range}};
  }
}

void put_text(json& object, const char* key, const std::string& text) {
  if (!text.empty()) {
    object[key] = text;
  }
}

void put_number(json& object, const char* key, const std::optional<double>& value) {
  if (value && std::isfinite(*value)) {
    object[key] = *value;
  }
}

void put_ratio(json& object, const char* key, const std::optional<OverOther>& over) {
  if (over) {
    object[key] = {{"variant", over->variant},
                   {"ratio", over->ratio.ratio},
                   {"interval", {over->ratio.interval.low, over->ratio.interval.high}},
                   {"interval_is_range", over->ratio.is_range},
                   {"paired", over->ratio.paired}};
  }
}

json company_json(const CompanyCell& cell) {
  json entry = {{"variant", cell.variant}, {"verified", cell.verified}};
  if (cell.rank > 0) {
    entry["rank"] = cell.rank;
  }
  put_text(entry, "unranked", cell.unranked);
  put_time(entry, "per_iteration", cell.per_iteration);
  put_time(entry, "whole", cell.whole);
  put_number(entry, "percent_of_limit", cell.percent_of_limit);
  return entry;
}

json cell_json(const SubmissionCell& cell) {
  json entry = {{"problem", cell.problem},
                {"precision", cell.precision},
                {"status", cell.status},
                {"verified", cell.verified}};
  put_text(entry, "message", cell.message);
  put_text(entry, "device", cell.device);
  if (cell.threads > 0) {
    entry["threads"] = cell.threads;
  }
  put_time(entry, "per_iteration", cell.per_iteration);
  put_time(entry, "whole", cell.whole);
  if (cell.rank > 0) {
    entry["rank"] = cell.rank;
    entry["ranked"] = cell.ranked;
  }
  put_text(entry, "unranked", cell.unranked);
  put_ratio(entry, "over_best", cell.over_best);
  put_ratio(entry, "over_next", cell.over_next);
  put_number(entry, "limit_ms_per_iteration", cell.limit_ms);
  put_number(entry, "percent_of_limit", cell.percent_of_limit);
  put_text(entry, "limit", cell.limit);
  for (const auto& [name, percent] : cell.phases) {
    entry["phases_percent"][name] = percent;
  }
  entry["beside"] = json::array();
  for (const CompanyCell& other : cell.company) {
    entry["beside"].push_back(company_json(other));
  }
  return entry;
}

} // namespace

json to_json(const SubmissionReport& report) {
  json entry = {{"variant", report.variant},
                {"verdict", report.verdict},
                {"submission", report.origin},
                {"advice", report.advice},
                {"cells", json::array()}};
  put_text(entry, "message", report.message);
  put_text(entry, "no_model_bound", report.no_bound);
  for (const SubmissionCell& cell : report.cells) {
    entry["cells"].push_back(cell_json(cell));
  }
  return entry;
}

} // namespace clusterbench

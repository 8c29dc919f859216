#include "harness/report/efficiency.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>

namespace clusterbench {
namespace {

using nlohmann::json;

bool on_gpu(const Measured& cell) {
  const std::string& device = cell.representative().device;
  return device == "gpu" || device == "multi_gpu" || device == "mpi_gpu";
}

bool of_ranks(const Measured& cell) {
  return cell.ranks() > 1;
}

// "mixture:1000,16,32,1,7" is "mixture:,16,32,1,7" of any number of rows; a file is itself.
std::string without_rows(const std::string& data) {
  const std::size_t begin = data.find(':') + 1; // 0 without one
  std::size_t end = begin;
  while (begin > 0 && end < data.size() && std::isdigit(static_cast<unsigned char>(data[end]))) {
    ++end;
  }
  return end < data.size() && data[end] == ',' ? data.substr(0, begin) + data.substr(end) : data;
}

// What two problems must have in common that differ in the number of rows alone.
json but_for_the_rows(json problem) {
  json kept = json::object();
  for (const char* key : {"family", "d", "k", "init", "stop", "max_iterations", "fuzzifier"}) {
    kept[key] = problem.value(key, json());
  }
  kept["data"] = without_rows(problem.value("data", ""));
  return kept;
}

double rows_of(const Measured& cell) {
  return cell.representative().problem().value("n", 0.0);
}

// Looks for the cells that a cell of several is compared with.
class Comparison {
public:
  Comparison(const TableReport& report, const ReportCell& cell)
      : report_(report), cell_(cell), parts_(parts_of(*cell.measured)),
        alike_(but_for_the_rows(cell.measured->representative().problem())) {}

  Efficiency of(Scaling scaling, OnOne on_one) const {
    Efficiency found{scaling, on_one, 0, std::nullopt, {}};
    if (!cell_.by_iteration.unranked.empty()) {
      found.why_not = "not ranked itself";
      return found;
    }
    const ReportCell* base = nullptr;
    const ReportCell* unranked = nullptr;
    for (const ReportCell& candidate : report_.cells) {
      if (!may_stand(candidate, scaling, on_one)) {
        continue;
      }
      if (!candidate.by_iteration.unranked.empty()) {
        unranked = &candidate;
      } else if (base == nullptr || pass_ms(candidate) < pass_ms(*base)) {
        base = &candidate;
      }
    }
    if (base == nullptr) {
      found.why_not = unranked != nullptr && on_one == OnOne::itself
                          ? fmt::format("{} is not ranked", hardware(scaling, on_one))
                          : what_lacks(scaling, on_one);
      return found;
    }
    found.base = static_cast<std::size_t>(base - report_.cells.data());
    found.value =
        divided(ratio_of(pass_costs(*cell_.measured), pass_costs(*base->measured), kTableResamples),
                times_the_hardware(scaling, on_one));
    return found;
  }

private:
  static double pass_ms(const ReportCell& cell) {
    return median_of_rounds(pass_costs(*cell.measured).ms());
  }

  // Whether the candidate ran what a cell of this kind is compared with.
  bool may_stand(const ReportCell& candidate, Scaling scaling, OnOne on_one) const {
    if (!candidate.measured || candidate.measured->machine != cell_.measured->machine ||
        candidate.spec.precision != cell_.spec.precision ||
        candidate.approximate() != cell_.approximate()) {
      return false;
    }
    const bool same_problem = candidate.spec.problem_id == cell_.spec.problem_id;
    return (scaling == Scaling::strong ? same_problem : has_a_share_of_the_rows(candidate)) &&
           (on_one == OnOne::fastest || candidate.spec.variant == cell_.spec.variant) &&
           has_the_hardware(*candidate.measured, scaling, on_one);
  }

  bool has_a_share_of_the_rows(const ReportCell& candidate) const {
    return but_for_the_rows(candidate.measured->representative().problem()) == alike_ &&
           rows_of(*candidate.measured) * parts_ == rows_of(*cell_.measured);
  }

  bool has_the_hardware(const Measured& candidate, Scaling scaling, OnOne on_one) const {
    if (parts_of(candidate) > 1 ||
        (on_one == OnOne::fastest &&
         (!candidate.ok() || on_gpu(candidate) != on_gpu(*cell_.measured)))) {
      return false;
    }
    return !of_ranks(*cell_.measured) || candidate.threads() == threads(scaling, on_one);
  }

  // One process may have all threads of the ranks: then it has the same hardware on the same rows.
  int threads(Scaling scaling, OnOne on_one) const {
    const int all = cell_.measured->threads();
    return scaling == Scaling::strong && on_one == OnOne::fastest ? all : all / parts_;
  }

  // Hardware of the cell over that of its base, on as many rows each.
  double times_the_hardware(Scaling scaling, OnOne on_one) const {
    const bool same_hardware =
        scaling == Scaling::weak || (of_ranks(*cell_.measured) && on_one == OnOne::fastest);
    return same_hardware ? 1.0 : parts_;
  }

  static Ratio divided(Ratio ratio, double by) {
    ratio.ratio /= by;
    ratio.interval.low /= by;
    ratio.interval.high /= by;
    for (double& draw : ratio.log_draws) {
      draw -= std::log(by);
    }
    return ratio;
  }

  std::string hardware(Scaling scaling, OnOne on_one) const {
    if (!of_ranks(*cell_.measured)) {
      return "one GPU";
    }
    const int count = threads(scaling, on_one);
    return fmt::format("one {} of {} thread{}", on_one == OnOne::itself ? "rank" : "process", count,
                       count == 1 ? "" : "s");
  }

  std::string what_lacks(Scaling scaling, OnOne on_one) const {
    return fmt::format("{} on {}{}", on_one == OnOne::itself ? "not run" : "nothing ran",
                       hardware(scaling, on_one),
                       scaling == Scaling::weak ? fmt::format(" with 1/{} of the rows", parts_)
                                                : "");
  }

  const TableReport& report_;
  const ReportCell& cell_;
  int parts_;
  json alike_;
};

} // namespace

int parts_of(const Measured& cell) {
  return std::max({cell.ranks(), cell.gpus(), 1});
}

std::string parts_text(const Measured& cell) {
  const auto counted = [](int count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return cell.ranks() > 0  ? counted(cell.ranks(), "rank")
         : cell.gpus() > 0 ? counted(cell.gpus(), "GPU")
                           : std::string();
}

bool has_several_parts(const TableReport& report) {
  return std::ranges::any_of(report.cells, [](const ReportCell& cell) {
    return cell.measured && parts_of(*cell.measured) > 1;
  });
}

void add_efficiencies(TableReport& report) {
  for (ReportCell& cell : report.cells) {
    if (!cell.measured || parts_of(*cell.measured) < 2) {
      continue;
    }
    const Comparison comparison(report, cell);
    for (const Scaling scaling : {Scaling::strong, Scaling::weak}) {
      for (const OnOne on_one : {OnOne::itself, OnOne::fastest}) {
        cell.efficiencies.push_back(comparison.of(scaling, on_one));
      }
    }
  }
}

} // namespace clusterbench

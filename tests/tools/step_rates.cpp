// How often the steps of `clusterbench history` are told of simulated campaigns, as JSON
// (results/step_rates.json): without a step, where all marks are false, and with one.
#include "harness/report/compare/steps.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

using nlohmann::json;

namespace {

constexpr double kMinEffect = 0.02, kLevel = 0.01 / 3.0;

struct Case {
  int series, campaigns, cells;
  double deviation, correlation, scatter; // of the logarithm; scatter is what is assumed
  int at = 0;                             // the first campaign after the step
  double step = 0.0;
};

// With the noise of neighbours, and asked again with each campaign, as history does.
bool is_told(const Case& rates, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> logs;
  double noise = normal(random);
  for (int i = 0; i < rates.campaigns; ++i) {
    logs.push_back(rates.deviation * noise + (i >= rates.at ? rates.step : 0.0));
    noise = rates.correlation * noise +
            std::sqrt(1.0 - rates.correlation * rates.correlation) * normal(random);
    if (clusterbench::clearest_step(logs, rates.scatter, kMinEffect, kLevel / rates.cells)) {
      return true;
    }
  }
  return false;
}

json rate_of(const Case& rates) {
  int told = 0;
#pragma omp parallel for reduction(+ : told) schedule(dynamic, 50)
  for (int i = 0; i < rates.series; ++i) {
    told += is_told(rates, 7000003U * static_cast<std::uint32_t>(i) + 11U) ? 1 : 0;
  }
  return {{"series", rates.series},
          {"campaigns", rates.campaigns},
          {"cells", rates.cells},
          {"deviation", rates.deviation},
          {"correlation", rates.correlation},
          {"assumed_scatter", rates.scatter},
          {"step_at", rates.at},
          {"step", rates.step},
          {"told", told}};
}

} // namespace

int main() {
  json all = json::array();
  for (const double correlation : {0.0, 0.5, 0.8}) {
    for (const double deviation : {0.02, 0.03, 0.09}) {
      all.push_back(rate_of({10000, 40, 1, deviation, correlation, 0.02}));
    }
  }
  for (const int cells : {1, 100}) {
    all.push_back(rate_of({4000, 24, cells, 0.01, 0.0, 0.012, 12, 0.03}));
    all.push_back(rate_of({4000, 24, cells, 0.02, 0.0, 0.012, 12, 0.05}));
    all.push_back(rate_of({4000, 40, cells, 0.01, 0.0, 0.012, 12, 0.05}));
  }
  fmt::print("{}\n", all.dump(1));
}

// Figures that follow from a row's samples, and which exit code wins.
#include "harness/ledger/limits.hpp"
#include "harness/system/exit_codes.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace clusterbench {
namespace {

using nlohmann::json;

TEST(ExitCodes, TheGraverWins) {
  // "Where several apply, the first of 64, 74, 130, 2, 5, 4, 1, 3."
  const std::vector<int> order = {64, 74, 130, 2, 5, 4, 1, 3, 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i; j < order.size(); ++j) {
      const auto a = static_cast<ExitCode>(order[i]);
      const auto b = static_cast<ExitCode>(order[j]);
      EXPECT_EQ(static_cast<int>(graver(a, b)), order[i]);
      EXPECT_EQ(static_cast<int>(graver(b, a)), order[i]);
    }
  }
}

TEST(Limits, MinimalWork) {
  const MinimalWork kmeans = minimal_work(Family::kmeans, Precision::f32, 1000, 7, 3);
  EXPECT_EQ(kmeans.bytes, 1000.0 * 7 * 4);
  EXPECT_EQ(kmeans.flops, 2.0 * 1000 * 3 * 7);
  EXPECT_EQ(kmeans.comparisons, 1000.0 * 2); // with the least so far
  const MinimalWork fcm = minimal_work(Family::fcm, Precision::f64, 1000, 7, 3);
  EXPECT_EQ(fcm.bytes, 1000.0 * 7 * 8);
  EXPECT_EQ(fcm.flops, 4.0 * 1000 * 3 * 7);
  EXPECT_EQ(fcm.comparisons, 0.0);
  // Products of 64-bit sizes that would overflow 32 bits.
  EXPECT_EQ(minimal_work(Family::kmeans, Precision::f64, 100'000'000, 1000, 1000).flops, 2e14);
}

json measured_row() {
  return {{"samples_ms", {4.0, 2.0, 3.0}},
          {"sample_iterations", {10, 10, 10}},
          {"device", "cpu"},
          {"threads", 2},
          {"precision", "f32"},
          {"problem", {{"n", 1000}, {"d", 10}, {"k", 4}, {"family", "kmeans"}}}};
}

json limits_of(double gbs, double gflops, double share = 1.0) {
  const json sizes = {{{"bytes", 1024}, {"gbs", gbs}}, {{"bytes", 1 << 30}, {"gbs", gbs}}};
  return {{"cpu",
           {{{"threads", 2},
             {"cpu_share", share},
             {"read_gbs", gbs},
             {"read_by_size", sizes},
             {"fma_f32_gflops", gflops},
             {"fma_f64_gflops", gflops / 2}}}},
          {"gpu", nullptr}};
}

TEST(Limits, FiguresFromSamples) {
  json row = measured_row();
  add_derived_figures(row, json::object());
  EXPECT_DOUBLE_EQ(row.at("median_ms"), 3.0);
  EXPECT_DOUBLE_EQ(row.at("ms_per_iteration"), 0.3);
  EXPECT_DOUBLE_EQ(row.at("iterations"), 10.0);
  EXPECT_DOUBLE_EQ(row.at("point_centroids_per_second"), 1000 * 4 / 0.3e-3);
  EXPECT_DOUBLE_EQ(row.at("gb_per_second"), 40000 / 0.3e-3 * 1e-9);
  EXPECT_DOUBLE_EQ(row.at("gflop_per_second"), 80000 / 0.3e-3 * 1e-9);
  EXPECT_LE(row.at("interval_ms").at(0), row.at("median_ms"));
  EXPECT_GE(row.at("interval_ms").at(1), row.at("median_ms"));
  EXPECT_FALSE(row.contains("percent_of_limit")); // no probe, no limit
  EXPECT_EQ(why_no_limit(row, json::object()), "the machine's rates were not measured");
}

TEST(Limits, APlainReadIsComparedWithTheSampleBesideIt) {
  json row = measured_row(); // 0.4, 0.2 and 0.3 ms a pass
  row["plain_reads_ms"] = {0.32, 0.19, 0.27};
  add_derived_figures(row, json::object());
  EXPECT_DOUBLE_EQ(row.at("percent_of_plain_read"), 90.0); // of 80, 95 and 90
}

TEST(Limits, EverySampleHasItsOwnPasses) {
  json row = measured_row();
  row["sample_iterations"] = {20, 2, 10}; // 0.2, 1 and 0.3 ms a pass
  add_derived_figures(row, json::object());
  EXPECT_DOUBLE_EQ(row.at("ms_per_iteration"), 0.3);
  EXPECT_DOUBLE_EQ(row.at("median_ms"), 3.0);
}

TEST(Limits, TheSlowerOfReadingAndComputingIsTheLimit) {
  json reads = measured_row();
  add_derived_figures(reads, limits_of(1.0, 1e6)); // 40 kB at 1 GB/s: 0.04 ms
  EXPECT_EQ(reads.at("limit"), "read bandwidth");
  EXPECT_NEAR(reads.at("limit_ms_per_iteration"), 0.04, 1e-12);
  EXPECT_NEAR(reads.at("percent_of_limit"), 100 * 0.04 / 0.3, 1e-9);
  json computes = measured_row();
  add_derived_figures(computes, limits_of(1e6, 1.0)); // 80 kflop at 1 GFLOP/s: 0.08 ms
  EXPECT_EQ(computes.at("limit"), "FMA rate");
  EXPECT_NEAR(computes.at("percent_of_limit"), 100 * 0.08 / 0.3, 1e-9);
  json doubles = measured_row();
  doubles["precision"] = "f64";
  add_derived_figures(doubles, limits_of(1e6, 1.0)); // half the rate
  EXPECT_NEAR(doubles.at("limit_ms_per_iteration"), 0.16, 1e-12);
}

TEST(Limits, TensorCoresHaveTheirOwnRate) {
  const json limits = {{"gpu",
                        {{"read_by_size", {{{"bytes", 1 << 20}, {"gbs", 1e6}}}},
                         {"fma_f32_gflops", 1.0},
                         {"gemm_tf32_gflops", 4.0},
                         {"gemm_f16_gflops", nullptr}}}};
  json row = measured_row();
  row["device"] = "gpu";
  for (const auto& [multiplier, ms, name] :
       {std::tuple{"fma", 0.08, "FMA rate"}, std::tuple{"tensor tf32", 0.02, "tensor TF32 rate"},
        std::tuple{"tensor f16", 0.08, "FMA rate"}}) { // not probed
    row["multiplier"] = multiplier;
    add_derived_figures(row, limits);
    EXPECT_NEAR(row.at("limit_ms_per_iteration"), ms, 1e-12) << multiplier;
    EXPECT_EQ(row.at("limit"), name);
  }
}

TEST(Limits, ManyClustersOfFewFeaturesAreBoundByComparing) {
  json limits = limits_of(1e6, 1.0);
  limits["cpu"][0]["compare_f32_gpairs"] = 0.01; // 3000 pairs: 0.3 ms, where products take 0.08
  limits["cpu"][0]["compare_f64_gpairs"] = 0.005;
  json row = measured_row();
  add_derived_figures(row, limits);
  EXPECT_EQ(row.at("limit"), "comparison rate");
  EXPECT_NEAR(row.at("limit_ms_per_iteration"), 0.3, 1e-12);
  EXPECT_NEAR(row.at("percent_of_limit"), 100.0, 1e-9);
  row["precision"] = "f64";
  add_derived_figures(row, limits);
  EXPECT_NEAR(row.at("limit_ms_per_iteration"), 0.6, 1e-12);
  row["problem"]["family"] = "fcm"; // weighs all of them
  add_derived_figures(row, limits);
  EXPECT_EQ(row.at("limit"), "FMA rate");
}

TEST(Limits, OnAGpuTheRateOfComparingIsThatOfTheScoresAndNoPassIsShorterThanAnExchange) {
  json limits = {{"gpu",
                  {{"read_by_size", {{{"bytes", 1 << 20}, {"gbs", 1e6}}}},
                   {"fma_f32_gflops", 1e6},
                   {"gemm_tf32_gflops", 1e6},
                   {"gemm_f16_gflops", 1e6},
                   {"compare_f32_gpairs", 0.01},
                   {"compare_f64_gpairs", 0.005},
                   {"compare_f16_gpairs", 0.02},
                   {"graph_node_us", 2.0},
                   {"grid_barrier_us", 1.5}}}};
  json row = measured_row();
  row["device"] = "gpu";
  for (const auto& [multiplier, ms] :
       {std::tuple{"fma", 0.3}, std::tuple{"tensor tf32", 0.15}, std::tuple{"tensor f16", 0.15}}) {
    row["multiplier"] = multiplier;
    add_derived_figures(row, limits);
    EXPECT_EQ(row.at("limit"), "comparison rate") << multiplier;
    EXPECT_NEAR(row.at("limit_ms_per_iteration"), ms, 1e-12) << multiplier;
  }
  limits["gpu"]["compare_f32_gpairs"] = 0.03; // rounding may cost more than it saves
  add_derived_figures(row, limits);
  EXPECT_NEAR(row.at("limit_ms_per_iteration"), 0.1, 1e-12);
  limits["gpu"]["compare_f32_gpairs"] = 0.01;
  row["gpus"] = 2; // each compares for its share
  add_derived_figures(row, limits);
  EXPECT_NEAR(row.at("limit_ms_per_iteration"), 0.075, 1e-12);
  row["problem"]["k"] = 1;
  add_derived_figures(row, limits);
  EXPECT_EQ(row.at("limit"), "exchange of a pass");
  EXPECT_NEAR(row.at("limit_ms_per_iteration"), 1.5e-3, 1e-15);
  for (const char* figure : {"compare_f16_gpairs", "compare_f32_gpairs", "compare_f64_gpairs"}) {
    limits["gpu"].erase(figure); // a probe of before these were measured: its model has neither
  }
  add_derived_figures(row, limits);
  EXPECT_EQ(row.at("limit"), "read bandwidth");
}

TEST(Limits, OnlyOfTheSameDeviceAndThreadsAndAnUndisturbedProbe) {
  json other_threads = measured_row();
  other_threads["threads"] = 3;
  add_derived_figures(other_threads, limits_of(1.0, 1.0));
  EXPECT_FALSE(other_threads.contains("percent_of_limit"));
  EXPECT_EQ(why_no_limit(other_threads, limits_of(1.0, 1.0)),
            "the probe measured no rates of 3 threads");
  json gpu = measured_row();
  gpu["device"] = "gpu";
  add_derived_figures(gpu, limits_of(1.0, 1.0));
  EXPECT_FALSE(gpu.contains("percent_of_limit"));
  EXPECT_EQ(why_no_limit(gpu, limits_of(1.0, 1.0)), "the probe measured no rates of a GPU");
  json no_driver = limits_of(1.0, 1.0);
  no_driver["gpu_missing"] = "no driver";
  EXPECT_EQ(why_no_limit(gpu, no_driver), "the probe measured no rates of a GPU (no driver)");
  json busy = measured_row();
  add_derived_figures(busy, limits_of(1.0, 1.0, /*share=*/0.25));
  EXPECT_FALSE(busy.contains("percent_of_limit"));
  EXPECT_EQ(why_no_limit(busy, limits_of(1.0, 1.0, 0.25)),
            "other programs disturbed the probe of the machine's rates, which had 25 % of its "
            "processors' "
            "time and needs 50 %");
  // What is too little does not look like enough.
  EXPECT_NE(why_no_limit(busy, limits_of(1.0, 1.0, 0.499)).find("had 49 %"), std::string::npos);
  EXPECT_EQ(why_no_limit(busy, limits_of(1.0, 1.0, 0.5)), "");
}

TEST(Limits, RowsWithoutSamplesAreLeftAlone) {
  const json crashed = {{"status", "crashed"}};
  json row = crashed;
  add_derived_figures(row, limits_of(1.0, 1.0));
  EXPECT_EQ(row, crashed);
}

TEST(Limits, ARowThatClaimsNoPassesHasFiniteFigures) {
  json row = measured_row();
  row["sample_iterations"] = {0, 0, 0};
  add_derived_figures(row, limits_of(1.0, 1.0));
  for (const char* field : {"ms_per_iteration", "gb_per_second", "percent_of_limit"}) {
    EXPECT_TRUE(std::isfinite(row.at(field).get<double>())) << field;
  }
}

} // namespace
} // namespace clusterbench

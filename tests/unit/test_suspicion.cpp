// Speed-ups that no bound allows.
#include "harness/gate/suspicion.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

using nlohmann::json;

TEST(Suspicion, OfAHundredTimesFaster) {
  EXPECT_NE(unbelievable_ratio(25.9, 0.0011, "ms").find("25.9 -> 0.0011 ms"), std::string::npos);
  EXPECT_NE(unbelievable_ratio(25.9, 0.0, "ms"), "");
  EXPECT_EQ(unbelievable_ratio(25.9, 0.3, "ms"), "");
  EXPECT_EQ(unbelievable_ratio(1.0, 1000.0, "ms"), "");
}

// 40 kB a pass at 1 GB/s: 0.04 ms.
TEST(Suspicion, OfTenTimesTheLimit) {
  const json sizes = {{{"bytes", 1024}, {"gbs", 1.0}}, {{"bytes", 1 << 30}, {"gbs", 1.0}}};
  const json limits = {{"cpu",
                        {{{"threads", 2},
                          {"cpu_share", 1.0},
                          {"read_by_size", sizes},
                          {"fma_f32_gflops", 1e6},
                          {"fma_f64_gflops", 1e6}}}}};
  const auto row = [](double ms) {
    return json{{"samples_ms", json::array({ms})},
                {"sample_iterations", json::array({10})},
                {"device", "cpu"},
                {"threads", 2},
                {"precision", "f32"},
                {"problem", {{"n", 1000}, {"d", 10}, {"k", 4}, {"family", "kmeans"}}}};
  };
  EXPECT_EQ(unbelievable_time(row(0.05), limits), ""); // 800 %: distances may be skipped
  EXPECT_NE(unbelievable_time(row(0.02), limits).find("2000 % of what this machine can do"),
            std::string::npos);
  EXPECT_EQ(unbelievable_time(row(0.02), json::object()), ""); // no probe, no limit
}

} // namespace
} // namespace clusterbench

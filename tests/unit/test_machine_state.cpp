// Whether the machine was as quiet in one campaign as in the other, and the work that tells it.
#include "harness/machine/fixed_work.hpp"
#include "harness/report/compare/machine_state.hpp"

#include <gtest/gtest.h>

#include <string>

namespace clusterbench {
namespace {

// Three rounds of ten samples; around the first `quiet` of each the fixed work took so long, and
// around the others twice as long, with tasks of others.
Costs campaign(double fixed_work_us, int quiet, double other_tasks = 1.0) {
  Costs costs;
  for (int r = 0; r < 3; ++r) {
    Costs::Round& round = costs.rounds.emplace_back();
    for (int i = 0; i < 10; ++i) {
      round.ms.push_back(1.0);
      round.around.push_back(i < quiet ? Busyness{fixed_work_us, 0.0}
                                       : Busyness{2.0 * fixed_work_us, other_tasks});
    }
  }
  return costs;
}

TEST(MachineState, OneQuietSampleInFiveIsEnough) {
  EXPECT_EQ(unlike_machine(campaign(50.0, 10), campaign(50.0, 2)), "");
  EXPECT_EQ(unlike_machine(campaign(50.0, 2), campaign(52.0, 10)), "");
}

TEST(MachineState, FixedWorkTellsAMachineThatIsBusyAllTheTime) {
  const std::string finding = unlike_machine(campaign(50.0, 10), campaign(61.0, 10));
  EXPECT_EQ(finding, "the machine was busy: its fixed work took 50 us at best before and 61 now");
  EXPECT_NE(unlike_machine(campaign(61.0, 10), campaign(50.0, 10)), "");
}

TEST(MachineState, TasksOfOthersTellIt) {
  EXPECT_EQ(unlike_machine(campaign(50.0, 10), campaign(25.0, 0)),
            "other programs kept the machine busy now");
  EXPECT_EQ(unlike_machine(campaign(25.0, 0), campaign(50.0, 10)),
            "other programs kept the machine busy before");
  EXPECT_EQ(unlike_machine(campaign(25.0, 0), campaign(25.0, 0)),
            "other programs kept the machine busy all the time");
  EXPECT_EQ(unlike_machine(campaign(25.0, 0, 0.1), campaign(25.0, 0, 0.1)), "");
}

TEST(MachineState, WhereNothingWasMeasuredNothingIsUnlike) {
  Costs unknown = campaign(80.0, 10);
  for (Costs::Round& round : unknown.rounds) {
    round.around.clear();
  }
  EXPECT_EQ(unlike_machine(unknown, campaign(50.0, 10)), "");
  EXPECT_EQ(unlike_machine(campaign(50.0, 10), unknown), "");
  EXPECT_EQ(unlike_machine({}, {}), "");
}

TEST(MachineState, RoundsThatTellSpeakForTheOthers) {
  Costs some = campaign(50.0, 0);
  some.rounds[1].around.clear();
  EXPECT_EQ(unlike_machine(campaign(50.0, 10), some), "other programs kept the machine busy now");
}

TEST(FixedWork, TakesTimeOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 1000}) {
    FixedWork work(threads);
    for (int i = 0; i < 3; ++i) {
      EXPECT_GT(work.microseconds(), 1.0);
    }
  }
}

} // namespace
} // namespace clusterbench

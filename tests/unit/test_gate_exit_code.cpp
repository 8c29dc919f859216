// What the verdicts of a gate's cells add up to.
#include "harness/gate/gate.hpp"

#include <gtest/gtest.h>

namespace clusterbench {
namespace {

TEST(GateExitCode, OneComparedCellIsEnough) {
  EXPECT_EQ(exit_code_of({"same", "not_compared", "new"}), ExitCode::ok);
  EXPECT_EQ(exit_code_of({"slower", "not_compared"}), ExitCode::regression);
  EXPECT_EQ(exit_code_of({"inconclusive", "new"}), ExitCode::inconclusive);
}

TEST(GateExitCode, NothingComparedIsRightOnlyWhereAllIsNew) {
  EXPECT_EQ(exit_code_of({"new", "new"}), ExitCode::ok);
  EXPECT_EQ(exit_code_of({"new", "not_compared"}), ExitCode::cells_missing);
  EXPECT_EQ(exit_code_of({"not_compared"}), ExitCode::cells_missing);
}

TEST(GateExitCode, WhatNeitherBuildHasDecidesNothing) {
  EXPECT_EQ(exit_code_of({"new", "absent"}), ExitCode::ok);
  EXPECT_EQ(exit_code_of({"same", "absent"}), ExitCode::ok);
  EXPECT_EQ(exit_code_of({"absent"}), ExitCode::cells_missing);
  EXPECT_EQ(exit_code_of({"not_compared", "absent"}), ExitCode::cells_missing);
}

TEST(GateExitCode, TheGravestApplies) {
  EXPECT_EQ(exit_code_of({"slower", "wrong", "failed"}), ExitCode::wrong_result);
  EXPECT_EQ(exit_code_of({"same", "suspicious"}), ExitCode::wrong_result);
  EXPECT_EQ(exit_code_of({"not_compared", "wrong"}), ExitCode::wrong_result);
  EXPECT_EQ(exit_code_of({"slower", "failed"}), ExitCode::cells_missing);
  EXPECT_EQ(exit_code_of({"not_compared", "interrupted"}), ExitCode::interrupted);
}

} // namespace
} // namespace clusterbench

// Instructions instead of seconds: what valgrind counts is the same on a busy machine.
#pragma once

#include "harness/gate/pair_of_builds.hpp"
#include "harness/problem/table.hpp"

#include <array>
#include <filesystem>
#include <string>

namespace clusterbench {

/// One cell's instructions per run in two builds.
struct CountedCell {
  /// `same`, `slower` (more instructions), `suspicious` (fewer than any change of a program makes
  /// them), `failed`, `interrupted`, or `not_compared`: the base does not have the cell. Answers
  /// are not verified.
  std::string verdict;
  std::string name;
  std::string message;
  std::array<double, 2> instructions{}; ///< per run: base, new
};

/// Where valgrind is. Throws datasets::InputError naming the package if it is not installed.
std::filesystem::path find_valgrind();

/// Counts one thread's run as the difference between a process that runs twice and one that runs
/// once: loading, preparing and warming up cancel out. `slower` if the new build executes more by
/// the minimum effect.
CountedCell count_instructions(const std::filesystem::path& valgrind,
                               const std::array<std::filesystem::path, 2>& builds,
                               const CellSpec& cell, WorkloadBuilder& builder, double min_effect);

} // namespace clusterbench

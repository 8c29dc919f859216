// Was the machine as quiet in one campaign as in the other? Samples of a variant are compared by
// the fastest tenth, so the fixed work around them is, too.
#pragma once

#include "harness/ledger/ratio.hpp"

#include <string>

namespace clusterbench {

/// The fixed work may take so many times as long on one side: more is another machine.
/// scripts/compare_calibration counts what comes of it.
inline constexpr double kMostFixedWork = 1.05;
/// So many tasks of others may run around the samples that met the fewest.
inline constexpr double kMostOtherTasks = 0.2;

/// Empty: the machine was as quiet on both sides, or that was not measured on both. Otherwise what
/// was different, in words.
std::string unlike_machine(const Costs& base, const Costs& fresh);

} // namespace clusterbench

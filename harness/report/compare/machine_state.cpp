#include "harness/report/compare/machine_state.hpp"

#include "harness/machine/nvml.hpp"
#include "harness/report/compare/process_test.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace clusterbench {

static_assert(kMostOtherTasks == kMostUseByOthers,
              "a GPU's use by others is compared as tasks are");

namespace {

// Around the samples that met the least of each, as far as rounds tell: of a GPU not every one
// does.
std::optional<Busyness> at_its_quietest(const Costs& costs) {
  std::vector<double> fixed_work, other_tasks;
  for (const Costs::Round& round : costs.rounds) {
    for (const Busyness& around : round.around) {
      fixed_work.push_back(around.fixed_work_us);
      other_tasks.push_back(around.other_tasks);
    }
  }
  if (fixed_work.empty()) {
    return std::nullopt;
  }
  return Busyness{quantile(fixed_work, kFastestShare), quantile(other_tasks, kFastestShare)};
}

} // namespace

std::string unlike_machine(const Costs& base, const Costs& fresh) {
  const auto before = at_its_quietest(base), now = at_its_quietest(fresh);
  if (!before || !now) {
    return "";
  }
  if (std::max(before->other_tasks, now->other_tasks) > kMostOtherTasks) {
    return fmt::format("other programs kept the machine busy {}",
                       before->other_tasks <= kMostOtherTasks ? "now"
                       : now->other_tasks <= kMostOtherTasks  ? "before"
                                                              : "all the time");
  }
  const auto [least, most] = std::minmax(before->fixed_work_us, now->fixed_work_us);
  if (most > kMostFixedWork * least) {
    return fmt::format(
        "the machine was busy: its fixed work took {:.0f} us at best before and {:.0f} now",
        before->fixed_work_us, now->fixed_work_us);
  }
  return "";
}

} // namespace clusterbench

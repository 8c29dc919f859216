#include "harness/system/process_limits.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>
#include <sys/resource.h>

namespace clusterbench {
namespace {

// A campaign holds the memory of all problems of its qualification open, and that of a cell: it
// worked with 768 files and not with 640. No other command holds more than a few.
constexpr rlim_t kFilesOfCampaign = 1024; // what Linux grants unless told otherwise
constexpr rlim_t kFiles = 64;
constexpr rlim_t kStack = rlim_t{1} << 20;

// What the limit is, raised to `needed` where it is lower and may be raised.
rlim_t raised(__rlimit_resource resource, rlim_t needed) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur >= needed) {
    return needed;
  }
  const rlimit more{std::min(needed, limit.rlim_max), limit.rlim_max};
  return setrlimit(resource, &more) == 0 ? more.rlim_cur : limit.rlim_cur;
}

// Empty if so many may be open.
std::string too_few_files(rlim_t needed) {
  const rlim_t files = raised(RLIMIT_NOFILE, kFilesOfCampaign);
  return files >= needed ? ""
                         : fmt::format("at most {} files may be open (ulimit -n); {} are needed",
                                       files, needed);
}

} // namespace

std::string too_low_limit() {
  if (const rlim_t stack = raised(RLIMIT_STACK, kStack); stack < kStack) {
    return fmt::format("the stack may have {} KiB (ulimit -s); {} are needed", stack >> 10,
                       kStack >> 10);
  }
  return too_few_files(kFiles);
}

std::string why_none_can_start() {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return fmt::format("no thread or process could be started: the limit of processes is reached "
                     "({}), or there is no memory for its stack",
                     is_limited ? fmt::format("ulimit -u {}", limit.rlim_cur)
                                : "the machine's, or a control group's");
}

void require_open_files() {
  if (const std::string why = too_few_files(kFilesOfCampaign); !why.empty()) {
    throw std::runtime_error(why);
  }
}

} // namespace clusterbench

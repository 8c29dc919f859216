// A fixed piece of work that tells whether this core is one's own at the moment.
#pragma once

#include <cstdint>

namespace clusterbench {

/// Nanoseconds that a few thousand independent additions take, the faster of two attempts: about
/// ten microseconds. With several threads, of the OpenMP team that a variant would use, all of them
/// at once, and the slowest counts: where one has no processor the other waits for it. A core that another hyperthread shares, or that has lowered its clock, takes
/// a third longer, which a thread's processor time would not show.
std::int64_t yardstick_ns(int threads);

/// How much longer than the shortest ever seen still counts as undisturbed. A sibling that polls
/// while it idles costs 20 %, one that works 50 % and more.
inline constexpr double kYardstickTolerance = 1.3;

} // namespace clusterbench

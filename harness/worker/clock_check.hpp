// Compares a worker's clock, which is recorded, with the parent's around the same request.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace clusterbench {

/// One timed request, as both sides saw it. Seconds.
struct TimedRequest {
  double inside = 0.0;  ///< what the worker claims
  double outside = 0.0; ///< from sending the request to its reply
  /// Allowed for what the worker does beside: reading the start, handing over.
  double untimed = 0.0;
  /// Of `outside`, that the worker and the parent were ready and had no processor.
  double waited = 0.0;
  double waited_here = 0.0; ///< of that, the parent
  /// Processor time of the worker's process between two readings, about `outside`.
  double cpu = 0.0;
  double of_cpu = 0.0; ///< from before the first reading to after the second
};

/// What lies between the two clocks is the round trip, and on a busy machine the waiting for a
/// processor, which the kernel accounts for. A worker that claims less than the rest is not
/// believed, and neither is one that claims more than there was: then what passed outside is
/// recorded. A variant can let itself wait, so only the parent's waiting is taken off that; the
/// worker's is no proof of a lie. Not for two threads.
class ClockCheck {
public:
  /// threads: that the variant may use; 0: its processor time is not looked at. A program's run
  /// that is too short for the clocks to be compared counts with the outside time; a runner's clock
  /// is the harness's own. processor_step: in which the kernel counts processor time, and the
  /// waiting for a processor [s].
  ClockCheck(bool is_program, int threads, double processor_step = 0.0)
      : is_program_(is_program), threads_(threads), processor_step_(processor_step) {}

  /// A round trip without work. The median of them is allowed for, and a millisecond at most, since
  /// the variant may lengthen some.
  void round_trip(double seconds);

  /// The seconds to record of one request.
  double judge(const TimedRequest& request);

  /// The seconds of handing over an answer beyond those that it needs: nobody's clock runs there,
  /// so they belong to the run.
  double beyond_handing_over(const TimedRequest& take);

  /// Empty, or what is wrong, in more than half of at least five requests: fewer may have been
  /// interrupted between the two clocks by a busy machine, which explains no claim of more than
  /// passed. Either less than half of the time that passed was claimed, and a late wake-up does not
  /// explain it; or more than passed, or none; or more processors' time was used than its threads
  /// have.
  std::string finding() const;

  nlohmann::json report() const;

private:
  double overhead() const;
  double handing_over() const;
  double usual_round_trip() const;
  double unseen(const TimedRequest& request, double overhead) const;

  bool is_program_;
  int threads_;
  double processor_step_;
  std::vector<double> round_trips_;
  std::vector<double> outside_ms_;
  std::size_t off_ = 0;        ///< requests whose claim was not believed
  std::size_t lies_ = 0;       ///< those of them that no interruption explains
  std::size_t impossible_ = 0; ///< those of them that claimed more than passed
  std::size_t late_ = 0;       ///< answers that took too long to be handed over
  std::size_t crowded_ = 0;    ///< requests that took more processors than allowed
  TimedRequest last_lie_, last_crowd_;
};

} // namespace clusterbench

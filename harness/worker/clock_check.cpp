#include "harness/worker/clock_check.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace clusterbench {
namespace {

constexpr double kShare = 0.05;           // of a request: freeing what it held
constexpr double kExtraProcessors = 0.25; // a thread that wakes up, the kernel's own accounts
// seconds: shorter requests are accounted for too coarsely
constexpr double kShortestCrowd = 2e-3;
constexpr double kDrift = 1e-3; // between two clocks that are both right
// A processor that fell idle between two requests wakes up late, on a virtual machine by up to a
// millisecond, and no account of the kernel shows it. So much alone proves no lie, though the
// outside time is what is recorded.
constexpr double kWakeUp = 1e-3;
constexpr double kLongestRoundTrip = 1e-3;
constexpr std::size_t kFewestRequests = 5;

} // namespace

// Of reading a request and writing a reply. A runner's is a few dozen lines of C++.
double ClockCheck::overhead() const {
  return is_program_ ? 1e-3 : 1e-4;
}

void ClockCheck::round_trip(double seconds) {
  round_trips_.push_back(seconds);
}

double ClockCheck::usual_round_trip() const {
  if (round_trips_.empty()) {
    return 0.0;
  }
  std::vector<double> sorted = round_trips_;
  std::ranges::sort(sorted);
  return std::min(sorted[(sorted.size() - 1) / 2], kLongestRoundTrip);
}

// Of writing an answer to its files: Python takes 0.1 to 0.2 ms for a small one.
double ClockCheck::handing_over() const {
  return is_program_ ? 4e-4 : overhead();
}

double ClockCheck::unseen(const TimedRequest& request, double overhead) const {
  return overhead + usual_round_trip() + request.untimed + request.waited_here;
}

double ClockCheck::judge(const TimedRequest& request) {
  outside_ms_.push_back(request.outside * 1e3);
  // Threads of the worker may spin on all processors before the request and after it, and let this
  // process wait between two readings.
  const double of_cpu = std::max(request.outside, request.of_cpu);
  // a step of each thread, and of one more
  const double miscounted = (threads_ + 1) * processor_step_;
  if (threads_ > 0 && request.outside > kShortestCrowd &&
      request.cpu - miscounted > (threads_ + kExtraProcessors) * of_cpu) {
    ++crowded_;
    last_crowd_ = request;
  }
  const double unseen = this->unseen(request, overhead());
  const bool possible = request.inside > 0.0 && request.inside <= request.outside;
  impossible_ += request.inside > (1.0 + kDrift) * request.outside ? 1 : 0;
  if (possible && request.outside <= 2.0 * unseen) { // too short for the two to be compared
    return is_program_ ? request.outside : request.inside;
  }
  if (possible && request.outside - request.inside <= unseen + kShare * request.outside) {
    return request.inside;
  }
  ++off_;
  const bool lie = // NaN is one
      !(possible && request.inside >= 0.5 * (request.outside - request.waited));
  const double late = is_program_ ? 0.0 : kWakeUp; // a program's overhead() allows for it
  const double waited_there = request.waited - request.waited_here + processor_step_;
  const bool explained =
      possible && request.outside - request.inside <= unseen + waited_there + late;
  if (lie && !explained) {
    ++lies_;
    last_lie_ = request;
  }
  return request.outside;
}

double ClockCheck::beyond_handing_over(const TimedRequest& take) {
  const double beyond = take.outside - unseen(take, handing_over());
  late_ += beyond > 0.0 ? 1 : 0;
  return std::max(beyond, 0.0);
}

std::string ClockCheck::finding() const {
  const std::size_t all = outside_ms_.size();
  if (all < kFewestRequests && 2 * impossible_ <= all) {
    return {};
  }
  if (2 * lies_ > all) {
    return fmt::format("in {} of {} runs the worker's clock was off; in the last of them it claims "
                       "{:.4g} ms, and {:.4g} ms passed",
                       lies_, all, last_lie_.inside * 1e3, last_lie_.outside * 1e3);
  }
  if (2 * crowded_ > all) {
    return fmt::format(
        "in {} of {} runs it used more than the {} that it may use; the last of them "
        "took {:.4g} ms, and {:.4g} ms of processor time",
        crowded_, all, threads_ == 1 ? "one thread" : fmt::format("{} threads", threads_),
        last_crowd_.outside * 1e3, last_crowd_.cpu * 1e3);
  }
  return {};
}

nlohmann::json ClockCheck::report() const {
  return {{"round_trip_ms", usual_round_trip() * 1e3},
          {"clock_off", off_},
          {"answers_late", late_},
          {"finding", finding()}};
}

} // namespace clusterbench

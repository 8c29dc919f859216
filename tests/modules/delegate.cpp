// A variant that takes everything, or refuses one thing. CLUSTERBENCH_DELEGATE is its name, and
// CLUSTERBENCH_REFUSES what it refuses.
#include "impls/contract.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace clusterbench {
namespace {

enum Refused { nothing, shape, points, start, weights };

constexpr std::chrono::milliseconds kWork{20}; ///< of preparing, and of finding a start refused

template <typename T>
class Delegate final : public Variant<T> {
public:
  std::string refuse(const Shape&) const override {
    return CLUSTERBENCH_REFUSES == Refused::shape ? "not this shape" : "";
  }
  void prepare(const Shape&, const Points<T>&) override {
    std::this_thread::sleep_for(kWork);
    if (CLUSTERBENCH_REFUSES == Refused::points) {
      throw Refusal("not these points");
    }
  }
  void run(const Start<T>& begin, Answer<T>& answer, Observer<T>& observer) override {
    if (CLUSTERBENCH_REFUSES == Refused::start) {
      std::this_thread::sleep_for(kWork);
      throw Refusal("not this start");
    }
    std::ranges::fill(answer.labels, 0);
    std::ranges::copy(begin.centroids, answer.centroids.begin());
    std::ranges::copy(begin.centroids, answer.entering.begin());
    observer.pass(answer.centroids);
    answer.iterations = 1;
  }
  std::string chosen_path() const override { return "the only path"; }
};

const Registration kDelegate({.name = CLUSTERBENCH_DELEGATE,
                              .idea = "",
                              .source = "",
                              .takes_weights = CLUSTERBENCH_REFUSES != Refused::weights,
                              .previous = ""},
                             both_precisions<Delegate>());

} // namespace
} // namespace clusterbench

// Every planted bug of the verifier's tests as a variant, and programs that try to be right without
// computing.
#include "impls/contract.hpp"
#include "tests/faulty/own_name.hpp"
#include "tests/verify/planted_bugs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using planted::Bug;

constexpr std::size_t kBeyondQualification = 1500; ///< points

/// Claims a number of passes that it did not make, once it is qualified.
template <typename T>
class Claims final : public Variant<T> {
public:
  explicit Claims(std::size_t passes) : passes_(passes) {}
  void prepare(const Shape& shape, const Points<T>& points) override {
    claims_ = shape.n > kBeyondQualification;
    right_.prepare(shape, points);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    right_.run(start, answer, observer);
    answer.iterations = claims_ ? passes_ : answer.iterations;
  }

private:
  std::size_t passes_;
  bool claims_ = false;
  planted::PlantedKMeans<T> right_{Bug::none};
};

/// Sees no weights, once it is qualified.
template <typename T>
class ForgetsWeights final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    right_.prepare(shape, shape.n > kBeyondQualification ? Points<T>{points.rows, points.first_row}
                                                         : points);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    right_.run(start, answer, observer);
  }

private:
  planted::PlantedKMeans<T> right_{Bug::none};
};

/// Gives other bits in every run, or in every one that nobody records, as variants do whose threads
/// add up in no fixed order.
template <typename T>
class Wobbles final : public Variant<T> {
public:
  explicit Wobbles(Bug bug, bool also_recorded = true)
      : also_recorded_(also_recorded), right_(bug) {}
  void prepare(const Shape& shape, const Points<T>& points) override {
    right_.prepare(shape, points);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    ++runs_;
    // Two steps at most: rounding excuses no more of an empty cluster, which keeps its centroid.
    steps_ = also_recorded_ || !observer.recording() ? runs_ % 3 : 0;
    Wobbling wobbling(*this, observer);
    right_.run(start, answer, wobbling);
    wobble(answer.centroids);
    if (answer.iterations > 1) { // else the start has entered
      wobble(answer.entering);
    }
  }

private:
  class Wobbling final : public Observer<T> { // what is recorded is what is returned
  public:
    Wobbling(Wobbles& variant, Observer<T>& observer) : variant_(variant), observer_(observer) {}
    bool recording() const override { return observer_.recording(); }
    void pass(std::span<const T> centroids) override {
      std::vector<T> copy(centroids.begin(), centroids.end());
      variant_.wobble(copy);
      observer_.pass(copy);
    }

  private:
    Wobbles& variant_;
    Observer<T>& observer_;
  };

  void wobble(std::span<T> centroids) const {
    for (int step = 0; step < steps_; ++step) {
      centroids[0] = std::nextafter(centroids[0], T{2});
    }
  }

  bool also_recorded_;
  int runs_ = 0;
  int steps_ = 0; ///< of this run's wobble
  planted::PlantedKMeans<T> right_;
};

/// Is right in the qualification and computes nothing in a cell: it looks for the oracle's answer
/// among the files that its process has open, in the oracle's cache, and in its parent's memory.
template <typename T>
class Cheats final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    right_.prepare(shape, points);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    const bool found = oracle_is_open() || oracle_is_cached() || parent_is_readable();
    if (shape_.n <= kBeyondQualification || found) {
      // what it would copy is what the right one gives
      right_.run(start, answer, observer);
      return;
    }
    std::ranges::fill(answer.labels, 0);
    std::ranges::copy(start.centroids, answer.centroids.begin());
    std::ranges::copy(start.centroids, answer.entering.begin());
    answer.iterations = shape_.stop.max_iterations;
  }

private:
  static bool oracle_is_open() {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const auto target = std::filesystem::read_symlink(entry.path(), error);
      if (!error && target.string().find("oracle") != std::string::npos) {
        return true;
      }
    }
    return false;
  }
  static bool oracle_is_cached() {
    const char* const cache = std::getenv("CLUSTERBENCH_CACHE");
    if (cache == nullptr) {
      return false;
    }
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(cache) / "oracle", error)) {
      if (std::ifstream(entry.path(), std::ios::binary).get() >= 0) {
        return true;
      }
    }
    return false;
  }
  static bool parent_is_readable() {
    return std::ifstream("/proc/" + std::to_string(getppid()) + "/mem").good();
  }

  Shape shape_;
  planted::PlantedKMeans<T> right_{Bug::none};
};

struct Planted {
  Factories factories;
  bool deterministic = true;
};

template <template <typename> class V, typename... Arguments>
Factories make(Arguments... arguments) {
  return {[=] { return std::make_unique<V<float>>(arguments...); },
          [=] { return std::make_unique<V<double>>(arguments...); }};
}

Factories of_bug(Family family, Bug bug) {
  return family == Family::kmeans ? make<planted::PlantedKMeans>(bug)
                                  : make<planted::PlantedFcm>(bug);
}

const std::map<std::string, Bug> kBugs = {
    {"none", Bug::none},
    {"drops_tail", Bug::drops_tail_block},
    {"drops_one_row", Bug::drops_one_row},
    {"stale_centroids", Bug::stale_centroids},
    {"racy_sums", Bug::racy_sums},
    {"counts_of_one_block", Bug::counts_of_one_block},
    {"returns_initial_state", Bug::returns_initial_state},
    {"not_a_number", Bug::not_a_number},
    {"labels_off_by_one", Bug::labels_off_by_one},
    {"wrong_labels_in_range", Bug::wrong_labels_in_range},
    {"squared_loss", Bug::squared_loss},
    {"stops_early", Bug::stops_early},
    {"one_pass_too_many", Bug::one_pass_too_many},
    {"hides_one_pass_too_many", Bug::hides_one_pass_too_many},
    {"ties_to_highest", Bug::ties_to_highest},
    {"wrong_later", Bug::wrong_later},
    {"wrong_once", Bug::wrong_once},
    {"inertia_too_high", Bug::inertia_too_high},
    {"empty_to_origin", Bug::empty_to_origin},
    {"ignores_weights", Bug::ignores_weights},
    {"wrong_exponent", Bug::wrong_exponent},
    {"unweighted_power", Bug::unweighted_power},
    {"not_normalised", Bug::not_normalised},
};

Planted planted_as(Family family, const std::string& name) {
  if (const auto bug = kBugs.find(name); bug != kBugs.end()) {
    return {of_bug(family, bug->second)};
  }
  const std::map<std::string, Planted> others = {
      {"claims_no_passes", {make<Claims>(std::size_t{0})}},
      {"claims_all_passes", {make<Claims>(std::numeric_limits<std::size_t>::max())}},
      {"forgets_weights", {make<ForgetsWeights>()}},
      {"wobbles", {make<Wobbles>(Bug::none), false}},
      {"wobbles_unrecorded", {make<Wobbles>(Bug::none, false)}}, // and says that it does not
      {"wobbles_wrong_once", {make<Wobbles>(Bug::wrong_once), false}},
      {"wobbles_wrong_late", {make<Wobbles>(Bug::wrong_once_late), false}},
      {"looks_for_the_oracle", {make<Cheats>()}},
  };
  return others.at(name);
}

const bool kRegistered = [] {
  constexpr std::string_view kMiddle = "_faulty_";
  const std::string name = own_name();
  const std::size_t middle = name.find(kMiddle);
  const Family family = name.starts_with("fcm") ? Family::fcm : Family::kmeans;
  const Planted planted = planted_as(family, name.substr(middle + kMiddle.size()));
  Meta meta;
  meta.name = name;
  meta.idea = "a planted bug";
  meta.source = "tests";
  meta.family = family;
  meta.deterministic = planted.deterministic;
  meta.takes_weights = family == Family::kmeans;
  registered_variants().push_back({meta, planted.factories, __FILE__});
  return true;
}();

} // namespace
} // namespace clusterbench

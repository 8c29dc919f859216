// Every planted bug of the verifier's tests as a variant of the program clusterbench_faulty, and
// programs that try to be right without computing.
#include "impls/contract.hpp"
#include "tests/verify/planted_bugs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace clusterbench {
namespace {

using planted::Bug;

template <template <typename> class Planted>
Registration planted_bug(Family family, const std::string& name, Bug bug) {
  const std::string prefix = family == Family::kmeans ? "kmeans_faulty_" : "fcm_faulty_";
  Factories factories{[=] { return std::make_unique<Planted<float>>(bug); },
                      [=] { return std::make_unique<Planted<double>>(bug); }};
  return {{.name = prefix + name,
           .idea = "a planted bug",
           .source = "tests",
           .family = family,
           .previous = ""},
          factories};
}

std::vector<Registration> both_families() {
  const std::pair<const char*, Bug> bugs[] = {
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
  };
  std::vector<Registration> registrations;
  for (const auto& [name, bug] : bugs) {
    registrations.push_back(planted_bug<planted::PlantedKMeans>(Family::kmeans, name, bug));
    registrations.push_back(planted_bug<planted::PlantedFcm>(Family::fcm, name, bug));
  }
  registrations.push_back(
      planted_bug<planted::PlantedKMeans>(Family::kmeans, "empty_to_origin", Bug::empty_to_origin));
  for (const auto& [name, bug] : {std::pair{"wrong_exponent", Bug::wrong_exponent},
                                  std::pair{"unweighted_power", Bug::unweighted_power},
                                  std::pair{"not_normalised", Bug::not_normalised}}) {
    registrations.push_back(planted_bug<planted::PlantedFcm>(Family::fcm, name, bug));
  }
  return registrations;
}

const std::vector<Registration> registrations = both_families();

constexpr std::size_t kBeyondQualification = 1500; ///< points

/// Claims a number of passes that it did not make, once it is qualified.
template <typename T>
class Claims final : public Variant<T> {
public:
  explicit Claims(std::size_t passes) : passes_(passes) {}
  void prepare(const Problem<T>& problem) override {
    claims_ = problem.n > kBeyondQualification;
    right_.prepare(problem);
  }
  void run(Observer<T>& observer) override { right_.run(observer); }
  void fetch(Result<T>& result) override {
    right_.fetch(result);
    result.iterations = claims_ ? passes_ : result.iterations;
  }

private:
  std::size_t passes_;
  bool claims_ = false;
  planted::PlantedKMeans<T> right_{Bug::none};
};

Registration claims(const std::string& name, std::size_t passes) {
  Factories factories{[=] { return std::make_unique<Claims<float>>(passes); },
                      [=] { return std::make_unique<Claims<double>>(passes); }};
  return {
      {.name = "kmeans_faulty_" + name, .idea = "a planted bug", .source = "tests", .previous = ""},
      factories};
}

const Registration no_passes = claims("claims_no_passes", 0);
const Registration all_passes =
    claims("claims_all_passes", std::numeric_limits<std::size_t>::max());

/// Gives other bits in every run, as variants do whose threads add up in no fixed order.
template <typename T>
class Wobbles final : public Variant<T> {
public:
  explicit Wobbles(Bug bug) : right_(bug) {}
  void prepare(const Problem<T>& problem) override { right_.prepare(problem); }
  void run(Observer<T>& observer) override {
    ++runs_;
    Wobbling wobbling(*this, observer);
    right_.run(wobbling);
  }
  void fetch(Result<T>& result) override {
    right_.fetch(result);
    wobble(result.centroids);
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
    for (int run = 0; run < runs_ % 64; ++run) {
      centroids[0] = std::nextafter(centroids[0], T{2});
    }
  }

  int runs_ = 0;
  planted::PlantedKMeans<T> right_;
};

Registration wobbles(const std::string& name, Bug bug) {
  Factories factories{[=] { return std::make_unique<Wobbles<float>>(bug); },
                      [=] { return std::make_unique<Wobbles<double>>(bug); }};
  return {{.name = "kmeans_faulty_" + name,
           .idea = "a planted bug",
           .source = "tests",
           .deterministic = false,
           .previous = ""},
          factories};
}

const Registration wobbling = wobbles("wobbles", Bug::none);
const Registration wobbling_wrong = wobbles("wobbles_wrong_once", Bug::wrong_once);
const Registration wobbling_wrong_late = wobbles("wobbles_wrong_late", Bug::wrong_once_late);

/// Is right in the qualification and computes nothing in a cell: it looks for the oracle's answer
/// among the files that its process has open, in the oracle's cache, and in its parent's memory.
template <typename T>
class Cheats final : public Variant<T> {
public:
  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    right_.prepare(problem);
  }
  void run(Observer<T>& observer) override {
    if (problem_.n <= kBeyondQualification) {
      right_.run(observer);
      return;
    }
    found_ = oracle_is_open() || oracle_is_cached() || parent_is_readable();
    if (found_) { // what it would now copy is what the right program computes
      right_.run(observer);
    }
  }
  void fetch(Result<T>& result) override {
    if (problem_.n <= kBeyondQualification || found_) {
      right_.fetch(result);
      return;
    }
    std::ranges::copy(problem_.centroids, result.centroids.begin());
    result.iterations = problem_.stop.max_iterations;
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

  Problem<T> problem_;
  bool found_ = false;
  planted::PlantedKMeans<T> right_{Bug::none};
};

const Registration cheat({.name = "kmeans_faulty_looks_for_the_oracle",
                          .idea = "a planted bug",
                          .source = "tests",
                          .previous = ""},
                         both_precisions<Cheats>());

} // namespace
} // namespace clusterbench

// The program of the tests: as clusterbench, and with slowdowns planted into any variant on demand.
//
// CLUSTERBENCH_PLANT="GLOB=SHARE" makes every run of the variants that the glob names longer by that
// share of itself: kmeans_openmp=0.05 costs 5 %. GLOB=wrong moves the answer's first centroid;
// GLOB=mislabels puts one point into another cluster, and the centroids where the labels want them;
// GLOB=crash ends every run by signal 11.
// CLUSTERBENCH_ORACLE_BUDGET=OPERATIONS: runs that take more are judged by themselves.
#include "harness/cli/cli.hpp"
#include "harness/run/cell_judge.hpp"
#include "impls/contract.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fnmatch.h>

namespace clusterbench {
namespace {

/// Another variant as it is; what is planted into it overrides a part.
template <typename T>
class Wrapped : public Variant<T> {
public:
  explicit Wrapped(std::unique_ptr<Variant<T>> inner) : inner_(std::move(inner)) {}
  std::string refuse(const Problem<T>& problem) const override { return inner_->refuse(problem); }
  void prepare(const Problem<T>& problem) override { inner_->prepare(problem); }
  void run(Observer<T>& observer) override { inner_->run(observer); }
  void fetch(Result<T>& result) override { inner_->fetch(result); }
  std::string chosen_path() const override { return inner_->chosen_path(); }

protected:
  std::unique_ptr<Variant<T>> inner_;
};

/// Another variant, and after each of its runs idle turns for a share of what the run took.
template <typename T>
class Slowed final : public Wrapped<T> {
public:
  Slowed(std::unique_ptr<Variant<T>> inner, double share)
      : Wrapped<T>(std::move(inner)), share_(share) {}
  void run(Observer<T>& observer) override {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    this->inner_->run(observer);
    const auto end = Clock::now();
    const auto until = end + std::chrono::duration_cast<Clock::duration>(share_ * (end - start));
    while (Clock::now() < until) {
    }
  }

private:
  double share_;
};

/// Another variant that crashes as it runs.
template <typename T>
class Crashing final : public Wrapped<T> {
public:
  using Wrapped<T>::Wrapped;
  void run(Observer<T>&) override { std::raise(SIGSEGV); }
};

/// Another variant whose answer is a little wrong.
template <typename T>
class Wrong final : public Wrapped<T> {
public:
  using Wrapped<T>::Wrapped;
  void fetch(Result<T>& result) override {
    this->inner_->fetch(result);
    result.centroids[0] += T{1};
  }
};

/// Another variant that puts a point into a cluster that is not the nearest one: but for that, all fits
/// together.
template <typename T>
class Mislabelling final : public Wrapped<T> {
public:
  using Wrapped<T>::Wrapped;
  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    this->inner_->prepare(problem);
  }
  void fetch(Result<T>& result) override {
    this->inner_->fetch(result);
    result.labels[0] = (result.labels[0] + 1) % static_cast<std::int32_t>(problem_.k);
    std::vector<double> sums(problem_.k * problem_.d), counts(problem_.k);
    for (std::size_t i = 0; i < problem_.n; ++i) {
      const auto label = static_cast<std::size_t>(result.labels[i]);
      counts[label] += 1.0;
      for (std::size_t f = 0; f < problem_.d; ++f) {
        sums[label * problem_.d + f] += static_cast<double>(problem_.points[i * problem_.d + f]);
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      result.centroids[i] = static_cast<T>(sums[i] / counts[i / problem_.d]);
    }
  }

private:
  Problem<T> problem_;
};

template <typename T>
void plant_into(std::function<std::unique_ptr<Variant<T>>()>& factory, const std::string& what) {
  if (!factory) {
    return;
  }
  factory = [inner = factory, what]() -> std::unique_ptr<Variant<T>> {
    if (what == "wrong") {
      return std::make_unique<Wrong<T>>(inner());
    }
    if (what == "mislabels") {
      return std::make_unique<Mislabelling<T>>(inner());
    }
    if (what == "crash") {
      return std::make_unique<Crashing<T>>(inner());
    }
    return std::make_unique<Slowed<T>>(inner(), std::atof(what.c_str()));
  };
}

// False if the words have no equals sign.
bool plant(const std::string& words) {
  const std::size_t equals = words.find('=');
  if (equals == std::string::npos) {
    return false;
  }
  const std::string what = words.substr(equals + 1);
  for (RegisteredVariant& variant : registered_variants()) {
    if (fnmatch(words.substr(0, equals).c_str(), variant.meta.name.c_str(), 0) == 0) {
      plant_into(variant.factories.f32, what);
      plant_into(variant.factories.f64, what);
    }
  }
  return true;
}

} // namespace
} // namespace clusterbench

int main(int argc, char** argv) {
  const char* const planted = std::getenv("CLUSTERBENCH_PLANT");
  if (planted != nullptr && *planted != '\0' && !clusterbench::plant(planted)) {
    std::fprintf(stderr, "CLUSTERBENCH_PLANT=%s: GLOB=SHARE, wrong, mislabels or crash is needed\n",
                 planted);
    return 64;
  }
  if (const char* const budget = std::getenv("CLUSTERBENCH_ORACLE_BUDGET"); budget != nullptr) {
    clusterbench::oracle_budget() = std::atof(budget);
  }
  return clusterbench::run_command_line(argc, argv);
}

// A module that stands in for a real one and, on demand, plants a fault into it.
//
// CLUSTERBENCH_PLANT="GLOB=SHARE" makes every run of the variants that the glob names longer by
// that share of itself: kmeans_openmp=0.05 costs 5 %. GLOB=wrong moves the answer's first centroid;
// GLOB=mislabels puts one point into another cluster, and the centroids where the labels want them;
// GLOB=crash ends every run by signal 11.
//
// CLUSTERBENCH_REAL_MODULES is the folder of the real modules. Of GPU variants only times can be
// changed: their answers are in the GPU's memory.
#include "impls/contract.hpp"
#include "tests/faulty/own_name.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fnmatch.h>

namespace clusterbench {
namespace {

/// Another variant as it is; what is planted into it overrides a part.
template <typename T>
class Wrapped : public Variant<T> {
public:
  explicit Wrapped(std::unique_ptr<Variant<T>> inner) : inner_(std::move(inner)) {}
  std::string refuse(const Shape& shape) const override { return inner_->refuse(shape); }
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    points_ = points;
    inner_->prepare(shape, points);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    inner_->run(start, answer, observer);
    plant(answer);
  }
  std::string chosen_path() const override { return inner_->chosen_path(); }

protected:
  virtual void plant(Answer<T>&) {}

  std::unique_ptr<Variant<T>> inner_;
  Shape shape_;
  Points<T> points_;
};

// What was put into a GPU's queue goes on when run() has returned.
void wait_for_device() {
  static const auto synchronize = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver == nullptr ? nullptr
                             : reinterpret_cast<int (*)()>(dlsym(driver, "cuCtxSynchronize"));
  }();
  if (synchronize != nullptr) {
    synchronize();
  }
}

/// After each of its runs idle turns for a share of what the run took.
template <typename T>
class Slowed final : public Wrapped<T> {
public:
  Slowed(std::unique_ptr<Variant<T>> inner, double share)
      : Wrapped<T>(std::move(inner)), share_(share) {}
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    this->inner_->run(start, answer, observer);
    wait_for_device();
    const auto end = Clock::now();
    const auto until = end + std::chrono::duration_cast<Clock::duration>(share_ * (end - begin));
    while (Clock::now() < until) {
    }
  }

private:
  double share_;
};

template <typename T>
class Crashing final : public Wrapped<T> {
  using Wrapped<T>::Wrapped;
  void plant(Answer<T>&) override { std::raise(SIGSEGV); }
};

template <typename T>
class Wrong final : public Wrapped<T> {
  using Wrapped<T>::Wrapped;
  void plant(Answer<T>& answer) override { answer.centroids[0] += T{1}; }
};

/// Puts a point into a cluster that is not the nearest one: but for that, all fits together.
template <typename T>
class Mislabelling final : public Wrapped<T> {
  using Wrapped<T>::Wrapped;
  void plant(Answer<T>& answer) override {
    const std::size_t n = this->shape_.n, d = this->shape_.d, k = this->shape_.k;
    answer.labels[0] = (answer.labels[0] + 1) % static_cast<std::int32_t>(k);
    std::vector<double> sums(k * d), counts(k);
    for (std::size_t i = 0; i < n; ++i) {
      const auto label = static_cast<std::size_t>(answer.labels[i]);
      counts[label] += 1.0;
      for (std::size_t f = 0; f < d; ++f) {
        sums[label * d + f] += static_cast<double>(this->points_.rows[i * d + f]);
      }
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      answer.centroids[i] = static_cast<T>(sums[i] / counts[i / d]);
    }
  }
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

// What is to be planted into the variant; empty: nothing.
std::string planted_into(const std::string& variant) {
  const char* const words = std::getenv("CLUSTERBENCH_PLANT");
  const std::string text = words == nullptr ? "" : words;
  const std::size_t equals = text.find('=');
  const bool hit = equals != std::string::npos &&
                   fnmatch(text.substr(0, equals).c_str(), variant.c_str(), 0) == 0;
  return hit ? text.substr(equals + 1) : "";
}

const bool kRegistered = [] {
  const std::filesystem::path file =
      std::filesystem::path(std::getenv("CLUSTERBENCH_REAL_MODULES")) / own_file().filename();
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto registered = reinterpret_cast<void* (*)()>(dlsym(module, "clusterbench_contract_3"));
  RegisteredVariant variant = static_cast<std::vector<RegisteredVariant>*>(registered())->front();
  if (const std::string what = planted_into(variant.meta.name); !what.empty()) {
    plant_into(variant.factories.f32, what);
    plant_into(variant.factories.f64, what);
  }
  registered_variants().push_back(std::move(variant));
  return true;
}();

} // namespace
} // namespace clusterbench

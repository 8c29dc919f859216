// kmeans_mpi with a fault in one rank: kmeans_mpi_faulty_FAULT_RANK_PLACE. The place is a request
// of the harness or a phase of a pass.
//
// A fault strikes in cells of more than 1500 points, which is beyond the qualification.
#include "impls/mpi/kmeans_mpi.cpp"
#include "tests/faulty/own_name.hpp"

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <unistd.h>

namespace clusterbench {
namespace {

struct Plan {
  std::string fault, place;
  int rank = 0;
};

Plan plan() {
  const std::string words = own_name().substr(std::string("kmeans_mpi_faulty_").size());
  const std::size_t first = words.find('_'), second = words.find('_', first + 1);
  Plan plan{words.substr(0, first), words.substr(second + 1), 0};
  std::from_chars(&words[first + 1], &words[second], plan.rank);
  return plan;
}

void strike(const std::string& fault) {
  if (fault == "killed") {
    std::raise(SIGKILL);
  } else if (fault == "segfaults") {
    std::raise(SIGSEGV);
  } else if (fault == "stops") {
    std::raise(SIGSTOP);
  } else if (fault == "hangs") {
    for (;;) {
      pause();
    }
  } else if (fault == "exits") {
    _exit(7);
  } else if (fault == "leaves") { // as if all were well
    std::_Exit(0);
  } else if (fault == "aborts") {
    MPI_Abort(MPI_COMM_WORLD, 5);
  } else if (fault == "throws") {
    throw std::runtime_error("planted: the rank is on fire");
  } else if (fault == "forks") {
    if (fork() >= 0) {
      throw std::runtime_error("planted: it could fork");
    }
  }
}

/// Strikes where a phase begins.
template <typename T>
class Striking final : public Observer<T> {
public:
  Striking(Observer<T>& next, const Plan& plan) : next_(next), plan_(plan) {}
  bool recording() const override { return next_.recording(); }
  void pass(std::span<const T> centroids) override { next_.pass(centroids); }
  void begin_phase(std::string_view name, void* stream) override {
    next_.begin_phase(name, stream);
    if (name.starts_with(plan_.place)) {
      strike(plan_.fault);
    }
  }
  void end_phase(void* stream) override { next_.end_phase(stream); }

private:
  Observer<T>& next_;
  const Plan& plan_;
};

template <typename T>
class Faulty final : public Variant<T> {
public:
  explicit Faulty(const Plan& plan) : plan_(plan) {}

  void prepare(const Shape& shape, const Points<T>& points) override {
    constexpr std::size_t kBeyondQualification = 1500;
    const std::size_t shards = static_cast<std::size_t>(shape.world);
    strikes_ = shape.rank == plan_.rank && shape.n * shards > kBeyondQualification;
    if (strikes_ && plan_.place == "prepare") {
      strike(plan_.fault);
    }
    right_.prepare(shape, points);
  }
  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    if (!strikes_) {
      return right_.run(start, answer, observer);
    }
    Striking<T> striking(observer, plan_);
    right_.run(start, answer, striking);
    if (plan_.fault == "differs") { // by a last bit
      T& last = answer.centroids.back();
      last = std::nextafter(last, T{0});
    } else if (plan_.fault == "counts") {
      ++answer.iterations;
    } else if (plan_.place == "return") {
      strike(plan_.fault);
    }
  }

private:
  const Plan& plan_;
  bool strikes_ = false;
  KmeansMpi<T> right_;
};

const bool kRegistered = [] {
  static const Plan kPlan = plan();
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (kPlan.place == "load" && rank != nullptr && std::to_string(kPlan.rank) == rank) {
    strike(kPlan.fault);
  }
  registered_variants().clear(); // of the right one
  registered_variants().push_back({{.name = own_name(),
                                    .idea = "a fault",
                                    .source = "tests",
                                    .device = Device::mpi,
                                    .previous = ""},
                                   {[] { return std::make_unique<Faulty<float>>(kPlan); },
                                    [] { return std::make_unique<Faulty<double>>(kPlan); }},
                                   __FILE__});
  return true;
}();

} // namespace
} // namespace clusterbench

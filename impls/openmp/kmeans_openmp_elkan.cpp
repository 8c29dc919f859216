// K-means with a lower bound for every point and centroid: nearly no distance is evaluated twice.
//
// Changed since kmeans_openmp_hamerly: k lower bounds a point instead of one, and half the distance
//   between any two centroids. A centroid that has come near is evaluated alone, and the others stay
//   ruled out; of all exact algorithms it evaluates the fewest distances. But reading k bounds costs
//   as much memory as reading k features: it wins where d is large, and loses where d is below k.
// Source: Elkan, Using the triangle inequality to accelerate k-means, ICML 2003. A bound is not
//   rewritten whenever its centroid moves, but compared after subtracting the way that the centroid
//   has gone since. Rounding: support/slack.hpp; labels are those of a plain pass.
// Cost per iteration: 8 n bytes for all points, (k + d) sizeof(T) for each one whose own bound meets
//   half the distance to the next centroid; 3 d flops for each distance evaluated, k (k + 1) / 2 of
//   them for the centroids.
// Limits: n k bounds, at most 4 GiB of them; the rule `loss` asks for every point's distance.
#include "impls/contract.hpp"
#include "impls/openmp/support/moving_sums.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

constexpr std::size_t kMostBytes = std::size_t{4} << 30; // of lower bounds

/// What one thread works on and finds.
template <typename T>
struct Part {
  Part(std::size_t first, std::size_t last, std::size_t d, std::size_t k)
      : begin(first), end(last), sums(d, k) {}

  std::size_t begin, end;
  openmp::MovingSums<T> sums;
  bool changed = false;
  double loss = 0.0;
  std::uint64_t evaluated = 0; // distances
};

template <typename T>
class KmeansOpenmpElkan final : public Variant<T> {
public:
  std::string refuse(const Problem<T>& problem) const override {
    if (problem.n > kMostBytes / sizeof(T) / problem.k) {
      return "a lower bound for every point and centroid would take more than 4 GiB";
    }
    return {};
  }

  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    const auto [n, d, k] = std::tuple(problem.n, problem.d, problem.k);
    centroids_ = openmp::MovingCentroids<T>(d, k);
    labels_.resize(n);
    upper_.resize(n);
    lower_.resize(n * k);
    halves_.assign(k * k, std::numeric_limits<T>::infinity());
    separation_.resize(k);
    const auto threads = static_cast<std::size_t>(std::max(problem.threads, 1));
    parts_.clear();
    for (std::size_t p = 0; p < threads; ++p) {
      parts_.emplace_back(n * p / threads, n * (p + 1) / threads, d, k);
    }
  }

  void run(Observer<T>& observer) override {
    centroids_.start(problem_.centroids);
    way_.assign(problem_.k, T{0});
    const auto threads = static_cast<int>(parts_.size());
    StopTest stop(problem_.stop);
    PassFacts facts;
    do {
      std::uint64_t evaluated = 0;
      {
        const Phase phase(observer, "assign");
        const bool first = stop.passes() == 0;
        evaluated += first ? 0 : separate();
        // A loop over parts, not over threads: should the runtime grant fewer threads than asked
        // for, the parts stay the same.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (int p = 0; p < threads; ++p) {
          Part<T>& part = parts_[static_cast<std::size_t>(p)];
          first ? assign_first(part) : assign(part, stop.wants_loss());
        }
      }
      {
        const Phase phase(observer, "update");
        facts = {.labels_changed = false};
        for (const Part<T>& part : parts_) {
          facts.labels_changed |= part.changed;
          facts.loss += part.loss;
          evaluated += part.evaluated;
        }
        facts.squared_shift = centroids_.update(parts_);
        evaluated += problem_.k; // from each centroid to where it went
        for (std::size_t j = 0; j < problem_.k; ++j) {
          way_[j] = centroids_.slack().plus(way_[j], centroids_.moved()[j]);
        }
      }
      observer.counter("distances", static_cast<double>(evaluated));
      observer.pass(centroids_.now());
    } while (!stop.after_pass(facts));
    iterations_ = stop.passes();
  }

  void fetch(Result<T>& result) override {
    std::ranges::copy(labels_, result.labels.begin());
    std::ranges::copy(centroids_.now(), result.centroids.begin());
    result.iterations = iterations_;
  }

  std::string chosen_path() const override {
    return centroids_.distances().layout();
  }

private:
  /// Half of a lower bound of the distance between any two centroids, infinite on the diagonal, and
  /// the least of each row. Returns the number of distances.
  std::uint64_t separate() {
    const auto k = static_cast<std::ptrdiff_t>(problem_.k);
    const auto threads = static_cast<int>(parts_.size());
    const openmp::Distances<T>& distances = centroids_.distances();
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (std::ptrdiff_t a = 0; a < k; ++a) { // rows of a triangle, dealt out in turn
      for (std::ptrdiff_t b = 0; b < a; ++b) {
        const T squared = distances.one(&centroids_.now()[static_cast<std::size_t>(a) * problem_.d],
                                        static_cast<std::size_t>(b));
        const T half = centroids_.slack().lower(squared) / 2;
        halves_[static_cast<std::size_t>(a * k + b)] = half;
        halves_[static_cast<std::size_t>(b * k + a)] = half;
      }
    }
    for (std::size_t j = 0; j < problem_.k; ++j) {
      const auto row = std::span(halves_).subspan(j * problem_.k, problem_.k);
      separation_[j] = *std::ranges::min_element(row);
    }
    return problem_.k * (problem_.k - 1) / 2;
  }

  /// The first pass: there is no bound yet, every distance is evaluated.
  void assign_first(Part<T>& part) {
    part.sums.clear();
    part.changed = true;
    part.evaluated = (part.end - part.begin) * problem_.k;
    double loss = 0.0;
    std::vector<T> squared(centroids_.distances().room());
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const T* x = &problem_.points[i * problem_.d];
      centroids_.distances().all(x, squared.data());
      const auto all = std::span(squared).first(problem_.k);
      const auto nearest = static_cast<std::size_t>(std::ranges::min_element(all) - all.begin());
      labels_[i] = static_cast<std::int32_t>(nearest);
      upper_[i] = centroids_.slack().upper(squared[nearest]);
      std::ranges::transform(all, &lower_[i * problem_.k],
                             [&](T value) { return centroids_.slack().lower(value); });
      part.sums.join(nearest, x);
      loss += std::sqrt(double{squared[nearest]});
    }
    part.loss = loss;
  }

  /// The first of the centroids from..k-1 that neither its lower bound nor its distance to the
  /// centroid `label` rules out; k if there is none.
  std::size_t next_candidate(std::size_t i, std::size_t label, T must_exceed,
                             std::size_t from) const {
    const std::size_t k = problem_.k;
    const T* lower = &lower_[i * k];
    const T* halves = &halves_[label * k];
    const auto possible = [&](std::size_t j) {
      return !(lower[j] - way_[j] > must_exceed) & !(halves[j] > must_exceed);
    };
    constexpr std::size_t kBlock = 32; // tested in vector registers; most have no candidate
    while (from < k) {
      const std::size_t end = std::min(from + kBlock, k);
      int candidates = 0;
#pragma omp simd reduction(+ : candidates)
      for (std::size_t j = from; j < end; ++j) {
        candidates += possible(j) ? 1 : 0;
      }
      if (candidates > 0) {
        while (!possible(from)) {
          ++from;
        }
        return from;
      }
      from = end;
    }
    return k;
  }

  void assign(Part<T>& part, bool wants_loss) {
    const openmp::Distances<T>& distances = centroids_.distances();
    const openmp::Slack<T>& slack = centroids_.slack();
    const std::size_t k = problem_.k;
    bool changed = false;
    double loss = 0.0;
    std::uint64_t evaluated = 0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const auto label = static_cast<std::size_t>(labels_[i]);
      upper_[i] = slack.plus(upper_[i], centroids_.moved()[label]);
      T must_exceed = slack.must_exceed(upper_[i]);
      std::size_t j =
          separation_[label] > must_exceed ? k : next_candidate(i, label, must_exceed, 0);
      if (j == k && !wants_loss) {
        continue;
      }
      const T* x = &problem_.points[i * problem_.d];
      const auto evaluate = [&](std::size_t centroid) {
        const T squared = distances.one(x, centroid);
        lower_[i * k + centroid] = slack.since(slack.lower(squared), way_[centroid]);
        ++evaluated;
        return squared;
      };
      std::size_t nearest = label;
      T smallest = evaluate(label);
      must_exceed = slack.must_exceed(slack.upper(smallest));
      for (j = j == k ? k : next_candidate(i, nearest, must_exceed, j); j < k;
           j = next_candidate(i, nearest, must_exceed, j + 1)) {
        if (j == label) {
          continue;
        }
        const T squared = evaluate(j);
        // Ties go to the lowest index, and the point's own may be a higher one.
        if (squared < smallest || (squared == smallest && j < nearest)) {
          nearest = j;
          smallest = squared;
          must_exceed = slack.must_exceed(slack.upper(smallest));
        }
      }
      upper_[i] = slack.upper(smallest);
      loss += std::sqrt(double{smallest});
      if (nearest != label) {
        changed = true;
        labels_[i] = static_cast<std::int32_t>(nearest);
        part.sums.leave(label, x);
        part.sums.join(nearest, x);
      }
    }
    part.changed = changed;
    part.loss = loss;
    part.evaluated = evaluated;
  }

  Problem<T> problem_;
  openmp::MovingCentroids<T> centroids_;
  std::vector<T> way_;               // [k] at least the way that each centroid has gone in this run
  std::vector<T> upper_;             // [n] bounds of distances, not squared
  std::vector<T> lower_;             // [n, k] each raised by the way that its centroid had gone
  std::vector<T> halves_;            // [k, k]
  std::vector<T> separation_;        // [k]
  std::vector<std::int32_t> labels_; // [n]
  std::vector<Part<T>> parts_;       // [threads]
  std::size_t iterations_ = 0;
};

const Registration registration({.name = "kmeans_openmp_elkan",
                                 .idea = "a lower bound for every point and centroid",
                                 .source = "Elkan 2003",
                                 .max_d = openmp::kMaxD,
                                 .previous = "kmeans_openmp_hamerly"},
                                both_precisions<KmeansOpenmpElkan>());

} // namespace
} // namespace clusterbench

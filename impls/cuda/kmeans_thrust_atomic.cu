// K-means in Thrust: containers and algorithms instead of buffers and launches.
//
// Changed since kmeans_cuda_atomic: the same sums with the same atomics (no thrust::reduce_by_key,
//   which would sort the points first), but memory is thrust::device_vector, kernels are functors
//   for thrust::for_each_n, and the stop rules are one algorithm each: thrust::inner_product for
//   labels, thrust::transform_reduce for loss and shift. Not faster, and not shorter: each functor
//   states its arguments.
// Source: article 004, "CUDA", its Thrust version; generalised to any d. The article launches its
//   kernels by hand and clears by thrust::fill; here an entry is cleared where it is used.
// Cost per iteration: ceil(k/8) n d values read for distances and n d for sums (repeats hit the
//   caches); 3 n k d + n d flops; n (d + 1) atomics, which are the limit where k is small.
// Limits: sums have the data's precision and any order, so runs differ in their last digits. A
//   float sum loses more where count * |mean| nears 2^24 times the spread of a cluster's points.
#include "impls/contract.hpp"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/phase_timer.hpp"

#include <cmath>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/transform_reduce.h>

namespace clusterbench {
namespace {

using namespace cuda;

// Distances that a thread holds in registers, so that it reads a feature once for eight clusters.
constexpr unsigned kTile = 8;

/// columns[j, i] = rows[i, j] for element e of the columns.
template <typename T>
struct Transpose {
  const T* rows; // [n, d]
  T* columns;    // [d, n]
  std::size_t n, d;

  __device__ void operator()(std::size_t e) const { columns[e] = rows[(e % n) * d + e / n]; }
};

/// Labels point i and adds it to the sums of its cluster.
template <typename T>
struct AssignAndSum {
  const T* points;    // [d, n]
  const T* centroids; // [k, d]
  std::size_t n, d, k;
  std::int32_t* labels; // [n]
  T* distances;         // [n], or null if the loss is not wanted
  T* sums;              // [d, line_stride(k)]
  unsigned* counts;     // [k]

  __device__ void operator()(std::size_t i) const {
    T smallest = INFINITY;
    std::size_t nearest = 0;
    for (std::size_t first = 0; first < k; first += kTile) {
      const T* row[kTile];
      T squared[kTile] = {};
#pragma unroll
      for (unsigned t = 0; t < kTile; ++t) {
        // Behind the end of k the last centroid is taken again: it never wins against itself.
        row[t] = centroids + min(first + t, k - 1) * d;
      }
      for (std::size_t j = 0; j < d; ++j) {
        const T x = points[j * n + i];
#pragma unroll
        for (unsigned t = 0; t < kTile; ++t) {
          const T difference = x - row[t][j];
          squared[t] += difference * difference;
        }
      }
#pragma unroll
      for (unsigned t = 0; t < kTile; ++t) {
        if (squared[t] < smallest) { // strictly, so that ties go to the lowest index
          smallest = squared[t];
          nearest = min(first + t, k - 1);
        }
      }
    }
    for (std::size_t j = 0; j < d; ++j) {
      atomicAdd(&sums[j * line_stride(k) + nearest],
                points[j * n + i]); // any thread may add to any cluster
    }
    atomicAdd(&counts[nearest], 1u);
    labels[i] = static_cast<std::int32_t>(nearest);
    if (distances != nullptr) {
      distances[i] = sqrt(smallest);
    }
  }
};

/// Makes entry e of the centroids a mean, and clears its sum. [k, d]
template <typename T>
struct UpdateMeans {
  std::size_t k, d;
  T* centroids;
  T* sums;
  const unsigned* counts;

  __device__ void operator()(std::size_t e) const {
    if (const unsigned count = counts[e / d]; count > 0) { // an empty cluster stays where it is
      T& sum = sums[e % d * line_stride(k) + e / d];
      centroids[e] = sum / static_cast<T>(count);
      sum = 0;
    }
  }
};

template <typename T>
struct ToDouble {
  __device__ double operator()(T value) const { return static_cast<double>(value); }
};

/// The squared shift of entry e.
template <typename T>
struct SquaredShift {
  const T* now;
  const T* before;

  __device__ double operator()(std::size_t e) const {
    const double shift = static_cast<double>(now[e]) - static_cast<double>(before[e]);
    return shift * shift;
  }
};

template <typename Vector>
auto* raw(Vector& vector) {
  return vector.empty() ? nullptr : thrust::raw_pointer_cast(vector.data());
}

template <typename T>
class KmeansThrustAtomic final : public Variant<T> {
public:
  void prepare(const Problem<T>& problem) override {
    n_ = problem.n, d_ = problem.d, k_ = problem.k;
    rule_ = problem.stop;
    const StopTest stop(rule_);
    stream_ = Stream::create();
    const thrust::device_vector<T> d_rows(problem.points.begin(), problem.points.end());
    d_points_.resize(n_ * d_);
    d_initial_.assign(problem.centroids.begin(), problem.centroids.end());
    d_centroids_.resize(k_ * d_);
    d_before_.resize(stop.wants_shift() ? k_ * d_ : 0);
    d_sums_.resize(d_ * line_stride(k_));
    d_counts_.resize(k_);
    d_labels_.resize(n_);
    d_previous_labels_.resize(stop.wants_labels_changed() ? n_ : 0);
    d_distances_.resize(stop.wants_loss() ? n_ : 0);
    // The vectors are filled in the default stream, for which ours does not wait by itself.
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    thrust::for_each_n(policy(), thrust::counting_iterator<std::size_t>(0), n_ * d_,
                       Transpose<T>{raw(d_rows), raw(d_points_), n_, d_});
    stream_.synchronize();
  }

  void run(Observer<T>& observer) override {
    StopTest stop(rule_);
    thrust::copy(policy(), d_initial_.begin(), d_initial_.end(), d_centroids_.begin());
    thrust::fill(policy(), d_sums_.begin(), d_sums_.end(), T{0});
    thrust::fill(policy(), d_previous_labels_.begin(), d_previous_labels_.end(), -1);
    PhaseTimer<T> timer(observer, stream_);
    std::vector<T> recorded(observer.recording() ? k_ * d_ : 0);
    PassFacts found;
    do {
      timer.measure("assign and sum", [&] { assign_and_sum(); });
      timer.measure("means", [&] { update_means(); });
      if (observer.recording()) {
        stream_.synchronize();
        thrust::copy(d_centroids_.begin(), d_centroids_.end(), recorded.begin());
        observer.pass(recorded);
      }
      found = facts_of_pass(stop);
    } while (!stop.after_pass(found));
    stream_.synchronize();
    iterations_ = stop.passes();
  }

  void fetch(Result<T>& result) override {
    thrust::copy(d_labels_.begin(), d_labels_.end(), result.labels.begin());
    thrust::copy(d_centroids_.begin(), d_centroids_.end(), result.centroids.begin());
    result.iterations = iterations_;
  }

private:
  /// Algorithms run in our stream; those that return nothing do not wait.
  auto policy() const { return thrust::cuda::par_nosync.on(stream_); }

  void assign_and_sum() {
    thrust::fill(policy(), d_counts_.begin(), d_counts_.end(), 0u);
    thrust::for_each_n(policy(), thrust::counting_iterator<std::size_t>(0), n_,
                       AssignAndSum<T>{raw(d_points_), raw(d_centroids_), n_, d_, k_,
                                       raw(d_labels_), raw(d_distances_), raw(d_sums_),
                                       raw(d_counts_)});
  }

  void update_means() {
    if (!d_before_.empty()) {
      thrust::copy(policy(), d_centroids_.begin(), d_centroids_.end(), d_before_.begin());
    }
    thrust::for_each_n(policy(), thrust::counting_iterator<std::size_t>(0), k_ * d_,
                       UpdateMeans<T>{k_, d_, raw(d_centroids_), raw(d_sums_), raw(d_counts_)});
  }

  /// Only what the rule wants; algorithms that return a value wait for it.
  PassFacts facts_of_pass(const StopTest& stop) {
    PassFacts facts;
    if (stop.wants_loss()) {
      facts.loss = thrust::transform_reduce(policy(), d_distances_.begin(), d_distances_.end(),
                                            ToDouble<T>{}, 0.0, thrust::plus<double>{});
    }
    if (stop.wants_labels_changed()) {
      // Counted, not compared: thrust::equal downloads a pair whose padding nobody has written.
      const std::size_t changed = thrust::inner_product(
          policy(), d_labels_.begin(), d_labels_.end(), d_previous_labels_.begin(), std::size_t{0},
          thrust::plus<std::size_t>{}, thrust::not_equal_to<std::int32_t>{});
      facts.labels_changed = changed > 0;
      thrust::copy(policy(), d_labels_.begin(), d_labels_.end(), d_previous_labels_.begin());
    }
    if (stop.wants_shift()) {
      facts.squared_shift = thrust::transform_reduce(
          policy(), thrust::counting_iterator<std::size_t>(0),
          thrust::counting_iterator<std::size_t>(k_ * d_),
          SquaredShift<T>{raw(d_centroids_), raw(d_before_)}, 0.0, thrust::plus<double>{});
    }
    return facts;
  }

  std::size_t n_ = 0, d_ = 0, k_ = 0, iterations_ = 0;
  StopRule rule_;
  Stream stream_;
  thrust::device_vector<T> d_points_;                     // [d, n]
  thrust::device_vector<T> d_initial_, d_centroids_;      // [k, d]
  thrust::device_vector<T> d_sums_;                       // [d, line_stride(k)]
  thrust::device_vector<T> d_before_;                     // [k, d] if the shift is wanted
  thrust::device_vector<T> d_distances_;                  // [n] if the loss is wanted
  thrust::device_vector<unsigned> d_counts_;              // [k]
  thrust::device_vector<std::int32_t> d_labels_;          // [n]
  thrust::device_vector<std::int32_t> d_previous_labels_; // [n] if changes are wanted
};

const Registration registration({.name = "kmeans_thrust_atomic",
                                 .idea = "kmeans_cuda_atomic in Thrust containers and algorithms",
                                 .source = "article 004, CUDA, the Thrust version",
                                 .device = Device::gpu,
                                 .deterministic = false,
                                 .previous = "kmeans_cuda_atomic"},
                                both_precisions<KmeansThrustAtomic>());

} // namespace
} // namespace clusterbench

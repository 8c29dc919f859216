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
#include "impls/cuda/common/runtime.hpp"

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

/// Makes entry e of the centroids a mean, keeps what entered the pass, and clears the sum. [k, d]
template <typename T>
struct UpdateMeans {
  std::size_t k, d;
  T* centroids;
  T* entering;
  T* sums;
  const unsigned* counts;

  __device__ void operator()(std::size_t e) const {
    entering[e] = centroids[e];
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

// Algorithms run in the default stream; those that return nothing do not wait.
constexpr auto& kPolicy = thrust::cuda::par_nosync;

template <typename T>
class KmeansThrustAtomic final : public Variant<T> {
public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    shape_ = shape;
    const std::size_t n = shape.n, d = shape.d, k = shape.k;
    const StopTest stop(shape.stop);
    d_points_.resize(n * d);
    d_sums_.resize(d * line_stride(k));
    d_counts_.resize(k);
    d_previous_labels_.resize(stop.wants_labels_changed() ? n : 0);
    d_distances_.resize(stop.wants_loss() ? n : 0);
    thrust::for_each_n(kPolicy, thrust::counting_iterator<std::size_t>(0), n * d,
                       Transpose<T>{points.rows.data(), raw(d_points_), n, d});
  }

  void run(const Start<T>& start, Answer<T>& answer, Observer<T>& observer) override {
    StopTest stop(shape_.stop);
    thrust::copy_n(kPolicy, start.centroids.data(), start.centroids.size(),
                   answer.centroids.data());
    thrust::fill(kPolicy, d_sums_.begin(), d_sums_.end(), T{0});
    thrust::fill(kPolicy, d_previous_labels_.begin(), d_previous_labels_.end(), -1);
    PassFacts found;
    do {
      assign_and_sum(answer, observer);
      update_means(answer, observer);
      observer.pass(answer.centroids);
      found = facts_of_pass(stop, answer);
    } while (!stop.after_pass(found));
    answer.iterations = stop.passes();
  }

private:
  void assign_and_sum(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "assign and sum", cudaStreamLegacy);
    thrust::fill(kPolicy, d_counts_.begin(), d_counts_.end(), 0u);
    thrust::for_each_n(kPolicy, thrust::counting_iterator<std::size_t>(0), shape_.n,
                       AssignAndSum<T>{raw(d_points_), answer.centroids.data(), shape_.n, shape_.d,
                                       shape_.k, answer.labels.data(), raw(d_distances_),
                                       raw(d_sums_), raw(d_counts_)});
  }

  void update_means(Answer<T>& answer, Observer<T>& observer) {
    const Phase phase(observer, "means", cudaStreamLegacy);
    thrust::for_each_n(kPolicy, thrust::counting_iterator<std::size_t>(0), shape_.k * shape_.d,
                       UpdateMeans<T>{shape_.k, shape_.d, answer.centroids.data(),
                                      answer.entering.data(), raw(d_sums_), raw(d_counts_)});
  }

  /// Only what the rule wants; algorithms that return a value wait for it.
  PassFacts facts_of_pass(const StopTest& stop, const Answer<T>& answer) {
    PassFacts facts;
    if (stop.wants_loss()) {
      facts.loss = thrust::transform_reduce(kPolicy, d_distances_.begin(), d_distances_.end(),
                                            ToDouble<T>{}, 0.0, thrust::plus<double>{});
    }
    if (stop.wants_labels_changed()) {
      // Counted, not compared: thrust::equal downloads a pair whose padding nobody has written.
      const std::size_t changed = thrust::inner_product(
          kPolicy, d_previous_labels_.begin(), d_previous_labels_.end(), answer.labels.data(),
          std::size_t{0}, thrust::plus<std::size_t>{}, thrust::not_equal_to<std::int32_t>{});
      facts.labels_changed = changed > 0;
      thrust::copy_n(kPolicy, answer.labels.data(), shape_.n, d_previous_labels_.begin());
    }
    if (stop.wants_shift()) {
      facts.squared_shift =
          thrust::transform_reduce(kPolicy, thrust::counting_iterator<std::size_t>(0),
                                   thrust::counting_iterator<std::size_t>(shape_.k * shape_.d),
                                   SquaredShift<T>{answer.centroids.data(), answer.entering.data()},
                                   0.0, thrust::plus<double>{});
    }
    return facts;
  }

  Shape shape_;
  thrust::device_vector<T> d_points_;                     // [d, n]
  thrust::device_vector<T> d_sums_;                       // [d, line_stride(k)]
  thrust::device_vector<T> d_distances_;                  // [n] if the loss is wanted
  thrust::device_vector<unsigned> d_counts_;              // [k]
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

// K-means in float64 with few features: compared as float32, moved as float64.
//
// Changed since kmeans_cuda_moves: the points are float64. A copy of them, moved to the first point
//   and rounded to float32, is what blocks keep and sweep: half the bytes, and multiply-adds at
//   twice the rate. What rounding can change is bounded (float_error() in certified_bound.hpp).
//   Where the two least scores are closer than that, a thread reads the row in float64 and compares
//   it by squared differences. Points that change their cluster are moved in float64, as integers
//   of two words, so that nothing drifts and nothing is rounded on the way.
// Source: kmeans_cuda_moves; kmeans_cuda_half_rows also proves labels from a narrower copy.
// Cost per iteration: 4 n d bytes of the points that do not fit; n k (d + 5) instructions; 60 a
//   coordinate that moves; about 2 us of latency.
// Limits: float64; d <= 32, k <= 64, k (d + 1) < 512 (608 for 7 and 8 features, 544 for more than
//   24), n < 2^31, 2^23 a multiprocessor; largest value between 2^-100 and 2^100; else refused. d
//   is padded to the next size that was compiled. Same bits in every run.
#include "impls/contract.hpp"
#include "impls/cuda/common/certified_bound.hpp"
#include "impls/cuda/common/exact_words.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/few_features/column_points.cuh"
#include "impls/cuda/few_features/counted_sums.cuh"
#include "impls/cuda/few_features/moved_points.cuh"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 32, kMaxClusters = 64;
constexpr std::size_t kMaxOfBlock = std::size_t{1}
                                    << 23; // points: half of what Moves can tell apart

struct Task {
  RunTask<double> run;
  const double* rows;  // [n, d]
  const float* narrow; // [D, n] (x - the first row) * scale, rounded
  double scale;        // a power of two
  PlainError error;    // of scores that are made of them
  unsigned n, d, k;
  unsigned copies;           // see MovedDoubles
  unsigned resident, stride; // points of a block that are in shared memory, and with padding
  double to_high[kMaxFeatures], to_low; // see MovedDoubles
  SumUnits<kMaxFeatures> units;
  std::uint64_t* words; // of CountedSums
};

/// columns: see Task, zero behind d. A thread a point.
__global__ void narrow_rows(const double* rows, std::size_t n, unsigned d, unsigned padded_d,
                            double scale, float* columns) {
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x) {
    for (unsigned f = 0; f < padded_d; ++f) {
      columns[f * n + i] = f < d ? static_cast<float>((rows[i * d + f] - rows[f]) * scale) : 0.0f;
    }
  }
}

/// A 64-bit integer in two words of shared memory, `apart` from each other, as atomics there have
/// 32 bits. Whoever wraps the lower word carries, so in the end the sum is right modulo 2^64, in
/// whatever order.
__device__ void add_in_halves(unsigned* halves, unsigned apart, long long value) {
  const auto low = static_cast<unsigned>(value);
  const unsigned before = atomicAdd(halves, low);
  const unsigned carry = before + low < before ? 1 : 0;
  atomicAdd(halves + apart, static_cast<unsigned>(value >> 32) + carry);
}
__device__ long long from_halves(const unsigned* halves, unsigned apart) {
  return static_cast<long long>(static_cast<unsigned long long>(halves[apart]) << 32 | halves[0]);
}

/// Sums of a block's points by cluster that stay from pass to pass, of k clusters with D features
/// and their counts. A value is two integers (exact_words.cuh), of 64 bits each in sums. There are
/// several copies, so that lanes seldom meet in one place.
template <unsigned D, unsigned kThreads>
struct MovedDoubles {
  static constexpr unsigned kWords = 4 * D + 1; // odd: copies lie in different banks
  static constexpr unsigned kNowhere = 0xFF;    // the cluster of a point in no sum

  unsigned* s_words;       // [k, copies, kWords]: [2, 2, D] and the count
  unsigned copies;         // a power of two
  const double* s_to_high; // [D] powers of two, see FixedPoint
  const double* s_to_one;  // [D] and what takes them back
  double to_low, from_low; // likewise

  __device__ unsigned* of(unsigned j, unsigned copy) const {
    return s_words + (j * copies + (copy & (copies - 1))) * kWords;
  }
  /// All threads. A barrier must follow.
  __device__ void clear(unsigned k) const {
    for (unsigned e = threadIdx.x; e < k * copies * kWords; e += kThreads) {
      s_words[e] = 0;
    }
  }
  /// Any thread: value x of feature f, or for f = D the point itself, goes from one cluster to
  /// another, in some copy.
  __device__ void move(unsigned copy, unsigned f, double x, unsigned from, unsigned to) const {
    unsigned *there = of(to, copy), *here = of(from == kNowhere ? to : from, copy);
    if (f == D) {
      atomicAdd(there + 4 * D, 1u);
      if (from != kNowhere) {
        atomicSub(here + 4 * D, 1u);
      }
      return;
    }
    const FixedWords words = FixedWords::of(x, {s_to_high[f], to_low});
    add_in_halves(there + f, D, words.high);
    add_in_halves(there + 2 * D + f, D, words.low);
    if (from != kNowhere) {
      add_in_halves(here + f, D, -words.high);
      add_in_halves(here + 2 * D + f, D, -words.low);
    }
  }
  /// Any thread: sum v of [k, D + 1].
  __device__ double sum(unsigned v) const {
    const unsigned j = v / (D + 1), f = v % (D + 1);
    unsigned count = 0;
    FixedWords all;
#pragma unroll 2
    for (unsigned c = 0; c < copies; ++c) {
      const unsigned* words = of(j, c);
      count += words[4 * D]; // copies may be less than 0; their sums are not
      if (f < D) {
        all.high += from_halves(words + f, D);
        all.low += from_halves(words + 2 * D + f, D);
      }
    }
    return f == D ? static_cast<double>(count)
                  : fma(static_cast<double>(all.low), from_low, static_cast<double>(all.high)) *
                        s_to_one[f];
  }
};

/// Twice the error of a row's scores, or more: `squared` |x'|^2 + `always`. That spares a root a
/// row, as |x'| <= (|x'|^2 / r + r) / 2 for any r; here the length of the longest centroid.
struct Margin {
  float squared, always;

  __device__ static Margin of(const PlainError& error, float longest) {
    const float r = fmaxf(longest, 0x1p-60f);
    const float slope = 2.01f * error.relative * longest; // of |x'|; float_error() has nothing else
    return {0.501f * slope / r, 0.501f * slope * r + 2.01f * error.of(0.0f, longest)};
  }
};

/// The centroids of a pass: as they are, and as float32 beside |c|^2 / 2.
template <unsigned D>
struct Centroids {
  static constexpr unsigned kWidth = D == 1 ? 2 : (D + 4) / 4 * 4; // read 16 bytes at a time

  double* s_exact;        // [k, D], zero behind d
  float* s_narrow;        // [k, kWidth]: -c', and |c'|^2 / 2 behind it
  const double* s_origin; // [D] the first row
  unsigned* s_longest;    // bits of the largest |c'|^2, or a little more

  /// All threads. The exact ones and `s_longest` = 0 must be there, and a barrier must follow.
  __device__ void narrow(const Task& task) const {
    if (threadIdx.x < task.k) {
      const unsigned j = threadIdx.x;
      double squared = 0.0;
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        const double c = (s_exact[j * D + f] - s_origin[f]) * task.scale;
        squared = fma(c, c, squared);
        s_narrow[j * kWidth + f] = static_cast<float>(-c);
      }
      s_narrow[j * kWidth + D] = static_cast<float>(0.5 * squared);
      atomicMax(s_longest, __float_as_uint(1.001f * static_cast<float>(squared)));
    }
  }
  /// Of scores of all rows, in this pass.
  __device__ Margin margin(const PlainError& error) const {
    return Margin::of(error, sqrtf(__uint_as_float(*s_longest)));
  }
  /// |c'|^2 / 2 - x'.c', from a centroid that read_centroid() has read.
  __device__ static float score(const float (&x)[D], const float (&c)[kWidth]) {
    float sum = c[D];
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      sum = fmaf(x[f], c[f], sum);
    }
    return sum;
  }
  /// Of the centroids whose scores are no more than `limit`, or no number, the nearest by squared
  /// differences of float64; ties go to the lowest index.
  __device__ unsigned nearest_to(const Task& task, const float (&x)[D], float limit,
                                 std::size_t point) const {
    double least = INFINITY;
    unsigned label = 0;
#pragma unroll 4
    for (unsigned j = 0; j < task.k; ++j) {
      float c[kWidth];
      read_centroid<kWidth>(s_narrow + j * kWidth, c);
      if (!(score(x, c) > limit)) {
        const double squared = squared_distance(task, point, j);
        label = squared < least ? j : label;
        least = fmin(least, squared);
      }
    }
    return label;
  }
  __device__ double squared_distance(const Task& task, std::size_t point, unsigned j) const {
    double squared = 0.0;
    for (unsigned f = 0; f < task.d; ++f) {
      const double difference = task.rows[point * task.d + f] - s_exact[j * D + f];
      squared += difference * difference;
    }
    return squared;
  }
};

/// Labels of C points, a step apart, of which `left` steps are real; point: the first of them among
/// all.
template <unsigned D, unsigned C, unsigned kThreads>
__device__ void label_narrow(const Task& task, const float (&x)[C][D], unsigned left,
                             const Centroids<D>& centroids, const Margin& margin, std::size_t point,
                             unsigned (&label)[C]) {
  constexpr unsigned kWidth = Centroids<D>::kWidth;
  float best[C], second[C];
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    best[p] = second[p] = INFINITY;
    label[p] = 0;
  }
#pragma unroll 4
  for (unsigned j = 0; j < task.k; ++j) {
    float c[kWidth];
    read_centroid<kWidth>(centroids.s_narrow + j * kWidth, c);
#pragma unroll
    for (unsigned p = 0; p < C; ++p) {
      const float score = Centroids<D>::score(x[p], c);
      second[p] = fminf(second[p], fmaxf(best[p], score));
      label[p] = score < best[p] ? j : label[p];
      best[p] = fminf(best[p], score);
    }
  }
#pragma unroll
  for (unsigned p = 0; p < C; ++p) {
    float squared = 0.0f;
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      squared = fmaf(x[p][f], x[p][f], squared);
    }
    const float of_row = fmaf(squared, margin.squared, margin.always);
    // False for what is no number. k = 1: nothing is second, and nothing else is nearest.
    if (p < left && !(second[p] - best[p] > of_row)) {
      const float limit = __fadd_ru(best[p], of_row);
      label[p] = centroids.nearest_to(task, x[p], limit, point + p * kThreads);
    }
  }
}

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: points
/// [D, stride], words of sums [k, copies, kWords], labels [resident] bytes.
template <unsigned D, unsigned kThreads, unsigned C>
__global__ void __launch_bounds__(kThreads, 1) cluster_points(const Task task) {
  constexpr unsigned kMaxValues = kThreads - 1; // and the fact: an owner each
  extern __shared__ __align__(16) float s_points[];
  __shared__ __align__(16) float s_narrow[kMaxValues + 3 * kMaxClusters];
  __shared__ double s_centroids[kMaxValues], s_totals[kMaxValues + 1];
  __shared__ double s_to_high[D], s_to_one[D], s_origin[D];
  __shared__ typename CountedSums<D>::Units s_units_of_sums;
  __shared__ double s_losses[kThreads / 32];
  __shared__ unsigned s_moves[Moves::kMost], s_moved, s_longest;

  const unsigned values = task.k * (D + 1); // and one more for the stop rule
  const MovedDoubles<D, kThreads> kept{reinterpret_cast<unsigned*>(s_points + D * task.stride),
                                       task.copies,
                                       s_to_high,
                                       s_to_one,
                                       task.to_low,
                                       1.0 / task.to_low};
  std::uint8_t* s_labels =
      reinterpret_cast<std::uint8_t*>(kept.s_words + task.k * task.copies * kept.kWords);
  CountedSums<D> sums(task.run, task.k, task.d, task.words, task.units, s_units_of_sums, s_totals);
  const Moves moves{s_moves, &s_moved};
  const Centroids<D> centroids{s_centroids, s_narrow, s_origin, &s_longest};

  const unsigned share = (task.n + gridDim.x - 1) / gridDim.x;
  const unsigned first = min(blockIdx.x * share, task.n);
  const unsigned count = min(share, task.n - first), resident = min(count, task.resident);
  const float* narrow = task.narrow + first;
  for (unsigned f = 0; f < D; ++f) {
    for (unsigned i = threadIdx.x; i < resident; i += kThreads) {
      s_points[f * task.stride + i] = narrow[std::size_t{f} * task.n + i];
    }
  }
  for (unsigned i = threadIdx.x; i < resident; i += kThreads) {
    s_labels[i] = kept.kNowhere;
  }
  for (unsigned e = threadIdx.x; e < task.k * D; e += kThreads) {
    s_centroids[e] = e % D < task.d ? task.run.initial[e / D * task.d + e % D] : 0.0;
  }
  for (unsigned f = threadIdx.x; f < D; f += kThreads) {
    s_to_high[f] = task.to_high[f];
    s_to_one[f] = 1.0 / task.to_high[f];
    s_origin[f] = f < task.d ? task.rows[f] : 0.0;
  }
  if (threadIdx.x == 0) {
    s_moved = s_longest = 0;
  }
  const bool wants_loss = task.run.rule == StopRule::Kind::loss;
  const auto value_of = [&](unsigned i, unsigned f) { // zero behind d
    return f < task.d ? task.rows[std::size_t{first + i} * task.d + f] : 0.0;
  };
  const auto label_of = [&](unsigned i) {
    return i < resident ? s_labels[i] : static_cast<unsigned>(task.run.labels[first + i]);
  };
  // Of so many moves: a value each, neighbouring threads of one point; several are on their way.
  const auto move_values = [&](unsigned many, auto move_at) {
    constexpr unsigned kAtOnce = 8;
#pragma unroll 1
    for (unsigned u = threadIdx.x; u < many * (D + 1); u += kAtOnce * kThreads) {
      double x[kAtOnce];
#pragma unroll
      for (unsigned b = 0; b < kAtOnce; ++b) {
        const unsigned at = min(u + b * kThreads, many * (D + 1) - 1);
        x[b] = value_of(move_at(at / (D + 1)).point, at % (D + 1));
      }
#pragma unroll
      for (unsigned b = 0; b < kAtOnce; ++b) {
        const unsigned at = u + b * kThreads, place = at / (D + 1);
        if (at < many * (D + 1)) {
          const auto [point, from] = move_at(place);
          kept.move(place, at % (D + 1), x[b], from, label_of(point));
        }
      }
    }
  };
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    centroids.narrow(task);
    __syncthreads(); // the narrow centroids are there
    const Margin margin = centroids.margin(task.error);
    double loss = 0.0;
    const auto label_all = [&](auto ahead, const float* points, std::size_t stride, unsigned from,
                               unsigned many, auto* labels) {
      for_columns<D, C, kThreads, decltype(ahead)::value>(
          points, stride, many, [&](const auto& x, unsigned i, unsigned left) {
            constexpr unsigned kAtOnce = sizeof(x) / sizeof(x[0]);
            const std::size_t point = std::size_t{first} + from + i;
            unsigned label[kAtOnce];
            label_narrow<D, kAtOnce, kThreads>(task, x, left, centroids, margin, point, label);
#pragma unroll
            for (unsigned p = 0; p < kAtOnce; ++p) {
              if (p >= left) {
                continue;
              }
              auto& kept_label = labels[i + p * kThreads];
              const unsigned before = static_cast<std::uint8_t>(kept_label);
              if (label[p] != before) {
                kept_label = static_cast<std::remove_reference_t<decltype(kept_label)>>(label[p]);
                moves.note({from + i + p * kThreads, before});
              }
              if (wants_loss) {
                loss += sqrt(centroids.squared_distance(task, point + p * kThreads, label[p]));
              }
            }
          });
    };
    label_all(std::false_type{}, s_points, task.stride, 0, resident, s_labels);
    label_all(std::true_type{}, narrow + resident, task.n, resident, count - resident,
              task.run.labels + first + resident);
    if (wants_loss) {
      loss = over_lanes<32>(loss);
      if (threadIdx.x % 32 == 0) {
        s_losses[threadIdx.x / 32] = loss;
      }
    }
    __syncthreads(); // all labels are there, and what moves is known
    const unsigned moved = s_moved;
    if (pass > 0 && moved <= Moves::kMost) {
      move_values(moved, [&](unsigned place) { return moves.at(place); });
    } else {
      kept.clear(task.k);
      __syncthreads(); // the sums are empty
      move_values(count, [&](unsigned place) { return Moves::Move{place, kept.kNowhere}; });
    }
    __syncthreads(); // the sums are there
    sums.send([&](unsigned v) {
      if (v < values) {
        return kept.sum(v);
      }
      double fact = wants_loss ? 0.0 : static_cast<double>(moved);
      for (unsigned w = 0; wants_loss && w < kThreads / 32; ++w) {
        fact += s_losses[w];
      }
      s_moved = s_longest = 0;
      return fact;
    });
    sums.finish();

    const Totals totals{s_totals, task.k, D + 1};
    last = end_pass<kThreads, D>(
        task.run, totals, task.k, task.d,
        [&](unsigned j, unsigned f, double old) { return totals.mean(j, f, old); }, s_centroids,
        [](unsigned j, unsigned f) { return j * D + f; }, pass, previous);
  }
  sums.leave();
  for (unsigned i = threadIdx.x; i < resident; i += kThreads) { // others have theirs
    task.run.labels[first + i] = s_labels[i];
  }
}

/// A compiled size of the kernel: a thread compares C points at a time, so that it reads a centroid
/// once for all of them.
struct Size {
  unsigned d, threads, chunk;
  void (*kernel)(const Task);

  std::size_t most_values() const { return threads - 1; }
};
template <unsigned D, unsigned kThreads, unsigned C>
constexpr Size kSize{D, kThreads, C, cluster_points<D, kThreads, C>};
// More threads where 64 clusters need them; fewer leave each more registers.
constexpr std::array kSizes{
    kSize<1, 512, 4>, kSize<2, 512, 4>,  kSize<3, 512, 4>,  kSize<4, 512, 4>,  kSize<6, 512, 2>,
    kSize<8, 608, 2>, kSize<12, 512, 2>, kSize<16, 512, 2>, kSize<24, 512, 1>, kSize<32, 544, 1>};

const Size& size_for(std::size_t d) {
  return *std::ranges::find_if(kSizes, [=](const Size& size) { return size.d >= d; });
}

class KmeansCudaNarrow final : public Variant<double> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::string reason = refuse_clustered(shape, kMaxFeatures, kMaxClusters);
    if (!reason.empty()) {
      return reason;
    }
    if (const std::string many = refuse_rows(shape.n, kMaxOfBlock); !many.empty()) {
      return many;
    }
    const Size& size = size_for(shape.d);
    if (shape.k * (size.d + 1) > size.most_values()) {
      return "k = " + std::to_string(shape.k) + " clusters of " + std::to_string(shape.d) +
             " features: shared memory holds the sums of k (d + 1) <= " +
             std::to_string(size.most_values());
    }
    return {};
  }

  void prepare(const Shape& shape, const Points<double>& points) override {
    size_ = &size_for(shape.d);
    launch_.prepare(shape);
    const Magnitudes of_rows = device_magnitudes(points.rows, shape.d);
    const float largest = std::ranges::max(of_rows.largest);
    if (!of_rows.finite || largest > 0x1p100f || (largest > 0.0f && largest < 0x1p-100f)) {
      throw Refusal("values that are not finite, or whose largest is not between 2^-100 and 2^100");
    }
    // Differences from the first row are less than 1 then, and those that count are normal floats.
    const double scale = largest > 0.0f ? std::ldexp(1.0, -2 - std::ilogb(largest)) : 1.0;
    d_narrow_ = DeviceBuffer<float>(shape.n * size_->d);
    narrow_rows<<<blocks_at_most(shape.n, 256, 65536), 256>>>(points.rows.data(), shape.n,
                                                              static_cast<unsigned>(shape.d),
                                                              size_->d, scale, d_narrow_.data());
    check_launch("narrow_rows");
    grid_ = one_block_per_multiprocessor(size_->kernel, shape.n, size_->threads * size_->chunk,
                                         size_->threads, CountedWord::kMostParts);
    const unsigned copies = shape.k <= 16 ? 8 : 2; // fewer lanes meet where there are more clusters
    const std::size_t words = shape.k * copies * (4 * size_->d + 1);
    const std::size_t share = ceil_div(shape.n, grid_.blocks);
    const auto resident =
        ResidentPoints::apart(share, std::size_t{size_->chunk} * size_->threads, size_->d,
                              grid_.shared_bytes - words * sizeof(unsigned));
    labels_before_ = share <= resident.count ? LabelsBefore::kept : LabelsBefore::always_in_memory;
    d_words_ = DeviceBuffer<std::uint64_t>(CountedWords::size(shape.k * (size_->d + 1) + 1));
    d_words_.zero();
    task_ = {.run = {},
             .rows = points.rows.data(),
             .narrow = d_narrow_.data(),
             .scale = scale,
             .error = float_error(size_->d),
             .n = static_cast<unsigned>(shape.n),
             .d = static_cast<unsigned>(shape.d),
             .k = static_cast<unsigned>(shape.k),
             .copies = copies,
             .resident = static_cast<unsigned>(resident.count),
             .stride = static_cast<unsigned>(resident.stride),
             .to_high = {},
             .to_low = FixedPoint::of(share, 0.0).to_low,
             .units = SumUnits<kMaxFeatures>::of(of_rows, share),
             .words = d_words_.data()};
    for (std::size_t f = 0; f < kMaxFeatures; ++f) {
      const float of_feature = f < shape.d ? of_rows.largest[f] : 0.0f;
      // A float may be the next one above: FixedPoint has a bit to spare for all rows of a block.
      task_.to_high[f] = FixedPoint::of(share, static_cast<double>(of_feature)).to_high;
    }
  }

  void run(const Start<double>& start, Answer<double>& answer,
           Observer<double>& observer) override {
    launch_.run(start, answer, observer, size_->kernel, task_, grid_, labels_before_);
  }

private:
  const Size* size_ = nullptr;
  Task task_{};
  ClusterLaunch grid_{};
  LabelsBefore labels_before_ = LabelsBefore::always_in_memory;
  OneLaunch<double> launch_;
  DeviceBuffer<float> d_narrow_;        // [D, n]
  DeviceBuffer<std::uint64_t> d_words_; // of CountedSums
};

const Registration
    registration({.name = "kmeans_cuda_narrow",
                  .idea = "float64 points are compared as float32, and moved as float64",
                  .source = "kmeans_cuda_moves",
                  .device = Device::gpu,
                  .max_d = kMaxFeatures,
                  .max_k = kMaxClusters,
                  .previous = "kmeans_cuda_moves"},
                 {{}, [] { return std::make_unique<KmeansCudaNarrow>(); }});

} // namespace
} // namespace clusterbench

// K-means with few features: boxes of points that one centroid wins alone are not looked at.
//
// Changed since kmeans_cuda_moves: neighbours lie side by side, 32 to a box, in the order of a k-d
//   tree, made in prepare(). A centroid is no candidate of a box if another one is nearer
//   everywhere in it. Many boxes have one left; if that has all points already, nothing changes.
// Source: kmeans_cuda_moves; Kanungo et al., 2002, "An efficient k-means clustering algorithm:
//   analysis and implementation", with the leaves of the tree alone, compared side by side.
// Cost per iteration: n / 32 boxes with k centroids, 5 d + 12 instructions each; 2 d + 10 for a
//   point and each candidate; 30 a coordinate that moves; about 2 us of latency. The rule `loss`
//   looks at all points; after the last pass n labels go back to the order of the data.
// Limits: float; d <= 8, where most boxes have several candidates already; k <= 64; boxes and
//   labels in shared memory, 53,000 (d = 1) to 26,000 (d = 8) points a multiprocessor of an H200,
//   else refused. d is padded to the next size that was compiled. Same bits in every run.
// Needs: sm_80
#include "impls/contract.hpp"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/common/one_launch.cuh"
#include "impls/cuda/common/runtime.hpp"
#include "impls/cuda/few_features/column_points.cuh"
#include "impls/cuda/few_features/counted_sums.cuh"
#include "impls/cuda/few_features/kd_boxes.cuh"
#include "impls/cuda/few_features/moved_points.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace clusterbench::cuda {

// Sums that stay from pass to pass, as in moved_points.cuh, of warps whose lanes have neighbouring
// points: where many of them go the same way, they are added up before they are moved.

/// See MovedPoints.
template <unsigned D, unsigned copies>
class MovedGroups : public MovedPoints<D, copies> {
public:
  using MovedPoints<D, copies>::MovedPoints;
  using MovedPoints<D, copies>::kNowhere;

  /// All lanes of a warp: the points of the lanes in `moving` go from one cluster to another.
  __device__ void move_lanes(unsigned moving, const float (&x)[D], unsigned from,
                             unsigned to) const {
    const unsigned lane = threadIdx.x % 32;
    if (__popc(moving) > kFew) {
      move_ways(moving, x, from, to);
    } else if ((moving >> lane & 1) != 0) {
#pragma unroll
      for (unsigned f = 0; f <= D; ++f) {
        this->move(lane, f, f < D ? x[f < D ? f : 0] : 1.0f, from, to);
      }
    }
  }

private:
  static constexpr int kFew = 10; ///< points whose atomics seldom meet

  __device__ void move_ways(unsigned moving, const float (&x)[D], unsigned from,
                            unsigned to) const {
    const unsigned lane = threadIdx.x % 32, way = from << 8 | to;
    Words words[D];
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      words[f] = Words::of(x[f], this->s_to_word_[f], this->next_);
      this->move_rest(f, (moving >> lane & 1) != 0 ? words[f].beneath : 0.0f, from, to);
    }
    while (moving != 0) { // a way at a time
      const unsigned its_way = __shfl_sync(kAllLanes, way, __ffs(static_cast<int>(moving)) - 1);
      const unsigned group = __ballot_sync(kAllLanes, way == its_way) & moving;
      const bool mine = (group >> lane & 1) != 0;
      int first = __popc(group), second = 0; // of lane f: of feature f; of lane D: the count
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        const int firsts = __reduce_add_sync(kAllLanes, mine ? words[f].first : 0);
        const int seconds = __reduce_add_sync(kAllLanes, mine ? words[f].second : 0);
        first = lane == f ? firsts : first;
        second = lane == f ? seconds : second;
      }
      if (lane <= D) {
        add_words(its_way & 0xFF, lane, first, second);
        if (its_way >> 8 != kNowhere) {
          add_words(its_way >> 8, lane, -first, -second);
        }
      }
      moving &= ~group;
    }
  }
  __device__ void add_words(unsigned j, unsigned f, int first, int second) const {
    int* words = this->words_of(j, threadIdx.x / 32) + f;
    atomicAdd(words, first);
    atomicAdd(words + D + 1, second);
  }
};

} // namespace clusterbench::cuda

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 8, kMaxClusters = 64;
constexpr unsigned kCopies = 4;                // of a block's sums
constexpr std::size_t kOtherShared = 48 << 10; // bytes that the kernel takes beside boxes, at most

/// In the rival of a box: it is the label of all points, and was the only candidate.
inline constexpr unsigned kSettled = 0x80;

/// The boxes of a block, in shared memory, and those of their points that are there, too.
template <unsigned D>
struct BoxesOfBlock {
  static constexpr unsigned kPoints = kBoxPoints * D; ///< floats of a box
  static constexpr unsigned kExtents = 2 * D + 1;     ///< odd, so that lanes read different banks

  float* s_points;          // [resident, D, 32]
  float* s_extents;         // [most, kExtents]: middle, and half of the width
  Candidates* s_candidates; // [most], of the open boxes in their order
  std::uint16_t* s_open;    // [most]: boxes whose points have to be looked at
  std::uint8_t* s_labels;   // [most, 32]
  std::uint8_t* s_rivals;   // [most]: the centroid that others are compared with

  static constexpr std::size_t bytes_of_points() { return kPoints * sizeof(float); }
  static constexpr std::size_t bytes_of_box() {
    return kExtents * sizeof(float) + sizeof(Candidates) + sizeof(std::uint16_t) + kBoxPoints + 1;
  }
  __device__ BoxesOfBlock(float* s_room, unsigned resident, unsigned most)
      : s_points(s_room), s_extents(s_points + std::size_t{resident} * kPoints),
        s_candidates(reinterpret_cast<Candidates*>(s_extents + most * kExtents)),
        s_open(reinterpret_cast<std::uint16_t*>(s_candidates + most)),
        s_labels(reinterpret_cast<std::uint8_t*>(s_open + most)),
        s_rivals(s_labels + most * kBoxPoints) {}

  /// All lanes of a warp: lists the boxes of lanes that want it, in any order, or in their own if
  /// that matters and all boxes are wanted.
  __device__ void open(bool wanted, unsigned box, Candidates candidates, bool in_order,
                       unsigned* s_count) const {
    const unsigned lane = threadIdx.x % 32, lanes = __ballot_sync(kAllLanes, wanted);
    if (lanes != 0) {
      unsigned place = lane == 0 ? atomicAdd(s_count, static_cast<unsigned>(__popc(lanes))) : 0;
      place = in_order ? box
                       : __shfl_sync(kAllLanes, place, 0) +
                             static_cast<unsigned>(__popc(lanes & ((1u << lane) - 1)));
      if (wanted) {
        s_open[place] = static_cast<std::uint16_t>(box);
        s_candidates[place] = candidates;
      }
    }
  }
};

struct Task {
  RunTask<> run;
  const float* points;   // [boxes, D, 32]
  const float* extents;  // [boxes, 2, D]
  const unsigned* order; // [n]: the row at a place
  unsigned n, d, k;
  unsigned boxes, most;          // of all blocks; of a block, at most
  unsigned resident;             // boxes of a block whose points are in shared memory
  ToWords<kMaxFeatures> to_word; // see MovedGroups
  float next;
  SumUnits<kMaxFeatures> units;
  std::uint64_t* words; // of CountedSums
};

/// The whole run. One block a multiprocessor, all of them resident; block b has boxes b, b + blocks
/// and so on, so that every block has some of every region. Dynamic shared memory: the boxes.
template <unsigned D, unsigned kThreads>
__global__ void __launch_bounds__(kThreads, 1) cluster_points(const Task task) {
  using Boxes = BoxesOfBlock<D>;
  using Kept = MovedGroups<D, kCopies>;
  constexpr unsigned kMaxValues = kMaxClusters * (D + 1);
  extern __shared__ __align__(16) float s_room[];
  __shared__ __align__(16) float s_centroids[kMaxClusters * kStride<D>];
  __shared__ double s_totals[kMaxValues + 1];
  __shared__ typename CountedSums<D>::Units s_units_of_sums;
  static_assert(kMaxValues + 1 <= kThreads); // an owner each
  __shared__ double s_losses[kThreads / 32];
  __shared__ long long s_rests[kMaxValues];
  __shared__ int s_words[kMaxClusters * kCopies * Kept::kWords];
  __shared__ float s_to_word[D + 1];
  __shared__ double s_units[D + 1];
  __shared__ unsigned s_moved, s_opened;

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned values = task.k * (D + 1); // and one more for the stop rule
  const Boxes boxes(s_room, task.resident, task.most);
  const Kept kept(s_words, s_rests, s_to_word, s_units, task.next, task.k);
  CountedSums<D> sums(task.run, task.k, task.d, task.words, task.units, s_units_of_sums, s_totals);

  const unsigned count =
      blockIdx.x < task.boxes ? (task.boxes - blockIdx.x - 1) / gridDim.x + 1 : 0;
  const auto place_of = [&](unsigned box) { // among all blocks'
    return box * gridDim.x + blockIdx.x;
  };
  const auto points_of = [&](unsigned box) { // [D, 32]
    return box < task.resident ? boxes.s_points + box * Boxes::kPoints
                               : task.points + std::size_t{place_of(box)} * Boxes::kPoints;
  };
  for (unsigned box = warp; box < count; box += kThreads / 32) {
    const float* points = task.points + std::size_t{place_of(box)} * Boxes::kPoints;
    for (unsigned e = lane; e < Boxes::kPoints && box < task.resident; e += 32) {
      boxes.s_points[box * Boxes::kPoints + e] = points[e];
    }
    for (unsigned e = lane; e < 2 * D; e += 32) {
      boxes.s_extents[box * Boxes::kExtents + e] =
          task.extents[std::size_t{place_of(box)} * 2 * D + e];
    }
    boxes.s_labels[box * kBoxPoints + lane] = Kept::kNowhere;
  }
  load_centroids<D, kThreads>(task.run.initial, task.k, task.d, s_centroids);
  kept.clear();
  set_units<D>(task.to_word, task.next, s_to_word, s_units);
  if (threadIdx.x == 0) {
    s_moved = s_opened = 0;
  }
  const bool wants_loss = task.run.rule == StopRule::Kind::loss;
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    for (unsigned first = warp * 32; first < count; first += kThreads) { // a lane a box
      const unsigned box = min(first + lane, count - 1);
      const float* s_extents = boxes.s_extents + box * Boxes::kExtents;
      const unsigned rival =
          pass > 0 ? boxes.s_rivals[box] : nearest_centroid<D>(s_extents, s_centroids, task.k);
      const Candidates candidates =
          candidates_of<D>(s_extents, s_centroids, task.k, rival & ~kSettled);
      const bool quiet = (rival & kSettled) != 0 && candidates.one() && !wants_loss;
      // The order matters to the loss, a floating-point sum.
      boxes.open(first + lane < count && !quiet, box, candidates, wants_loss, &s_opened);
    }
    __syncthreads(); // all open boxes are listed

    double loss = 0.0;
    unsigned moved = 0;
    for (unsigned i = warp; i < s_opened; i += kThreads / 32) { // a lane a point
      const unsigned box = boxes.s_open[i];
      const Candidates candidates = boxes.s_candidates[i];
      float x[D];
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        x[f] = points_of(box)[f * kBoxPoints + lane];
      }
      const bool real = place_of(box) * kBoxPoints + lane < task.n;
      std::uint8_t& kept_label = boxes.s_labels[box * kBoxPoints + lane];
      const unsigned before = kept_label;
      float squared = 0.0f;
      const unsigned label = nearest_of(x, s_centroids, candidates, squared);
      const unsigned moving = __ballot_sync(kAllLanes, real && label != before);
      if (moving != 0) {
        kept_label = static_cast<std::uint8_t>(label);
        kept.move_lanes(moving, x, before, label);
        moved += static_cast<unsigned>(__popc(moving));
      }
      if (lane == 16) { // in the middle, at least along one feature
        boxes.s_rivals[box] = static_cast<std::uint8_t>(label | (candidates.one() ? kSettled : 0));
      }
      if (wants_loss && real) {
        loss += static_cast<double>(sqrtf(squared));
      }
    }
    if (wants_loss) {
      loss = over_lanes<32>(loss);
      if (lane == 0) {
        s_losses[warp] = loss;
      }
    }
    if (lane == 0 && moved > 0) {
      atomicAdd(&s_moved, moved);
    }
    __syncthreads(); // the sums are there
    sums.send([&](unsigned v) {
      if (v < values) {
        return kept.sum(v);
      }
      double fact = wants_loss ? 0.0 : static_cast<double>(s_moved);
      for (unsigned w = 0; wants_loss && w < kThreads / 32; ++w) {
        fact += s_losses[w];
      }
      s_moved = s_opened = 0;
      return fact;
    });
    sums.finish();

    const Totals totals{s_totals, task.k, D + 1};
    last = end_pass<kThreads, D>(
        task.run, totals, task.k, task.d,
        [&](unsigned j, unsigned f, float old) { return totals.mean(j, f, old); }, s_centroids,
        [](unsigned j, unsigned f) { return j * kStride<D> + f; }, pass, previous);
  }
  sums.leave();
  for (unsigned box = warp; box < count; box += kThreads / 32) {
    const unsigned place = place_of(box) * kBoxPoints + lane;
    if (place < task.n) { // labels go back to the order of the data
      task.run.labels[task.order[place]] = boxes.s_labels[box * kBoxPoints + lane];
    }
  }
}

/// A compiled size of the kernel.
struct Size {
  unsigned d, threads;
  std::size_t bytes_of_box, bytes_of_points;
  void (*kernel)(const Task);
};
template <unsigned D, unsigned kThreads>
constexpr Size kSize{D, kThreads, BoxesOfBlock<D>::bytes_of_box(),
                     BoxesOfBlock<D>::bytes_of_points(), cluster_points<D, kThreads>};
constexpr std::array kSizes{kSize<1, 1024>, kSize<2, 1024>, kSize<3, 1024>,
                            kSize<4, 1024>, kSize<6, 1024>, kSize<8, 1024>};

const Size& size_for(std::size_t d) {
  return *std::ranges::find_if(kSizes, [=](const Size& size) { return size.d >= d; });
}

class KmeansCudaBoxes final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::string reason = refuse_clustered(shape, kMaxFeatures, kMaxClusters);
    if (!reason.empty()) {
      return reason;
    }
    // Half of what a block has room for, so that there is room for points as well.
    const std::size_t limit = shared_memory_limit();
    const std::size_t bytes = limit > kOtherShared ? (limit - kOtherShared) / 2 : 0;
    return refuse_rows(shape.n, bytes / size_for(shape.d).bytes_of_box * kBoxPoints);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    size_ = &size_for(shape.d);
    launch_.prepare(shape);
    grid_ = one_block_per_multiprocessor(size_->kernel, shape.n, size_->threads, size_->threads,
                                         CountedWord::kMostParts);
    boxes_ = KdBoxes::of(points.rows, shape.n, shape.d, size_->d);
    const std::size_t most = ceil_div(boxes_.boxes, grid_.blocks);
    const std::size_t taken = most * size_->bytes_of_box;
    if (taken > grid_.shared_bytes) {
      throw std::runtime_error("the boxes of " + std::to_string(shape.n) + " points need " +
                               std::to_string(taken) + " bytes of shared memory, there are " +
                               std::to_string(grid_.shared_bytes));
    }
    d_words_ = DeviceBuffer<std::uint64_t>(CountedWords::size(shape.k * (size_->d + 1) + 1));
    d_words_.zero();
    const int bits = moved_bits(most * kBoxPoints);
    const Magnitudes of_rows = device_magnitudes(points.rows, shape.d);
    task_ = {.run = {},
             .points = boxes_.points.data(),
             .extents = boxes_.extents.data(),
             .order = boxes_.order.data(),
             .n = static_cast<unsigned>(shape.n),
             .d = static_cast<unsigned>(shape.d),
             .k = static_cast<unsigned>(shape.k),
             .boxes = boxes_.boxes,
             .most = static_cast<unsigned>(most),
             .resident = static_cast<unsigned>(
                 std::min(most, (grid_.shared_bytes - taken) / size_->bytes_of_points)),
             .to_word = ToWords<kMaxFeatures>::of(of_rows, bits),
             .next = std::ldexp(1.0f, bits),
             .units = SumUnits<kMaxFeatures>::of(of_rows, most * kBoxPoints),
             .words = d_words_.data()};
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    launch_.run(start, answer, observer, size_->kernel, task_, grid_, LabelsBefore::kept);
  }

private:
  const Size* size_ = nullptr;
  Task task_{};
  ClusterLaunch grid_{};
  OneLaunch<> launch_;
  KdBoxes boxes_;
  DeviceBuffer<std::uint64_t> d_words_; // of CountedSums
};

const Registration
    registration({.name = "kmeans_cuda_boxes",
                  .idea = "boxes of points that one centroid wins alone stay as they are",
                  .source = "kmeans_cuda_moves; Kanungo et al., 2002",
                  .device = Device::gpu,
                  .max_d = kMaxFeatures,
                  .max_k = kMaxClusters,
                  .previous = "kmeans_cuda_moves"},
                 f32_only<KmeansCudaBoxes>());

} // namespace
} // namespace clusterbench

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
// Limits: float; d <= 8; k <= 64, or 256 up to two features, 255 of three and 204 of four, where
//   four lanes share a box. Boxes and labels are in shared memory up to 128,000 (d = 1) or 57,000
//   (d = 8) points a multiprocessor of an H200; beyond, only what says who is undecided, up to
//   480,000, or 160,000 with four lanes. d is padded to the next size. Same bits in every run.
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

inline constexpr unsigned kNowhere = 256; ///< no label, which is a byte

/// See MovedPoints.
template <unsigned D, unsigned copies>
class MovedGroups : public MovedPoints<D, copies, kNowhere> {
public:
  using MovedPoints<D, copies, kNowhere>::MovedPoints;

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
    bool has_rests = false;
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      words[f] = Words::of(x[f], this->s_to_word_[f], this->next_);
      has_rests |= (moving >> lane & 1) != 0 && words[f].beneath != 0.0f;
    }
    has_rests = __any_sync(kAllLanes, has_rests); // many have, where a block has many points
    while (moving != 0) {                         // a way at a time
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
        if (has_rests) {
          move_rests(f, mine ? words[f].beneath : 0.0f, its_way);
        }
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
  __device__ void move_rests(unsigned f, float beneath, unsigned way) const {
    const long long rest = over_lanes<32>(__float2ll_rn(beneath * kBeneath));
    if (rest != 0 && threadIdx.x % 32 == f) {
      add_integer_shared(this->s_rests_ + (way & 0xFF) * (D + 1) + f, rest);
      if (way >> 8 != kNowhere) {
        add_integer_shared(this->s_rests_ + (way >> 8) * (D + 1) + f, -rest);
      }
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

constexpr unsigned kMaxFeatures = 8, kThreads = 1024;
constexpr std::size_t kOtherShared = 48 << 10; // bytes that the kernel takes beside boxes, at most

/// In the rival of a box: it is the label of all points, and was the only candidate.
constexpr unsigned kSettled = 0x8000;
/// In the list of open boxes.
constexpr unsigned kOneCandidate = kSettled;

/// What depends on how many lanes share a box, when it is compared with all centroids.
template <unsigned D, unsigned lanes>
struct LanesOfBox {
  /// 64 for each lane, but one thread adds up a value of all blocks.
  static constexpr unsigned kMaxClusters = std::min(64 * lanes, (kThreads - 1) / (D + 1));
  static constexpr unsigned kCopies = lanes == 1 ? 4 : 2; ///< of a block's sums
};

/// Where a box's extents and the labels of its points are.
enum class Store { shared_memory, memory };

struct Task {
  RunTask<> run;
  const float* points;  // [boxes, D, 32]
  const float* extents; // [boxes, 2, D]
  std::uint8_t* labels; // [boxes, 32], where those are in memory or end up there
  unsigned n, d, k;
  unsigned boxes, most;          // of all blocks; of a block, at most
  unsigned resident;             // boxes of a block whose points are in shared memory
  ToWords<kMaxFeatures> to_word; // see MovedGroups
  float next;
  SumUnits<kMaxFeatures> units;
  std::uint64_t* words; // of CountedSums
};

/// The boxes of a block: b, b + blocks and so on for block b, so that every block has some of every
/// region. What of them is in shared memory is [most] or, of points, [resident].
template <unsigned D, unsigned lanes, Store store>
class BoxesOfBlock {
public:
  static constexpr std::size_t bytes_of_points() { return kPoints * sizeof(float); }
  static constexpr std::size_t bytes_of_box() {
    return (kShared ? kExtents * sizeof(float) + kBoxPoints : 0) + lanes * sizeof(Candidates) +
           2 * sizeof(std::uint16_t);
  }

  Candidates* s_candidates; ///< [most, lanes], of the open boxes in their order
  std::uint16_t* s_open;    ///< boxes whose points have to be looked at
  std::uint16_t* s_rivals;  ///< the centroid that others are compared with

  __device__ BoxesOfBlock(const Task& task, float* s_room)
      : task_(task), s_points_(s_room),
        s_extents_(s_points_ + std::size_t{task.resident} * kPoints) {
    s_candidates = reinterpret_cast<Candidates*>(s_extents_ + (kShared ? task.most * kExtents : 0));
    s_open = reinterpret_cast<std::uint16_t*>(s_candidates + task.most * lanes);
    s_rivals = s_open + task.most;
    s_labels_ = reinterpret_cast<std::uint8_t*>(s_rivals + task.most);
  }
  /// All threads, once a run: brings what is in shared memory. A barrier must follow.
  __device__ void load() const {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned box = threadIdx.x / 32; box < count(); box += blockDim.x / 32) {
      for (unsigned e = lane; e < kPoints && box < task_.resident; e += 32) {
        s_points_[box * kPoints + e] = points_in_memory(box)[e];
      }
      for (unsigned e = lane; kShared && e < 2 * D; e += 32) {
        s_extents_[box * kExtents + e] = task_.extents[std::size_t{place(box)} * 2 * D + e];
      }
    }
  }

  /// All threads, at the end of a run: what labels are in shared memory.
  __device__ void store_labels() const {
    for (unsigned box = threadIdx.x / 32; kShared && box < count(); box += blockDim.x / 32) {
      label_in_memory(box) = label(box);
    }
  }

  __device__ unsigned count() const {
    return blockIdx.x < task_.boxes ? (task_.boxes - blockIdx.x - 1) / gridDim.x + 1 : 0;
  }
  /// Among all blocks'.
  __device__ unsigned place(unsigned box) const { return box * gridDim.x + blockIdx.x; }
  __device__ const float* points(unsigned box) const { ///< [D, 32]
    return box < task_.resident ? s_points_ + box * kPoints : points_in_memory(box);
  }
  __device__ const float* extents(unsigned box) const { ///< middle, and half of the width
    if constexpr (kShared) {
      return s_extents_ + box * kExtents;
    }
    return task_.extents + std::size_t{place(box)} * 2 * D;
  }
  __device__ std::uint8_t& label(unsigned box) const { ///< of the lane's point
    if constexpr (kShared) {
      return s_labels_[box * kBoxPoints + threadIdx.x % 32];
    }
    return label_in_memory(box);
  }

  /// All lanes of a warp: lists the boxes of lanes that want it, in any order, or in their own if
  /// that matters and all boxes are wanted. The first lane of a box counts for all that share it.
  __device__ void open(bool wanted, unsigned box, Candidates candidates, bool one, bool in_order,
                       unsigned* s_count) const {
    const unsigned lane = threadIdx.x % 32, of_box = lane % lanes;
    const unsigned firsts = __ballot_sync(kAllLanes, wanted && of_box == 0);
    if (firsts != 0) {
      unsigned slot = lane == 0 ? atomicAdd(s_count, static_cast<unsigned>(__popc(firsts))) : 0;
      slot = in_order ? box
                      : __shfl_sync(kAllLanes, slot, 0) +
                            static_cast<unsigned>(__popc(firsts & ((1u << (lane - of_box)) - 1)));
      if (wanted) {
        s_open[slot] = static_cast<std::uint16_t>(box | (one ? kOneCandidate : 0));
        s_candidates[slot * lanes + of_box] = candidates;
      }
    }
  }

private:
  static constexpr bool kShared = store == Store::shared_memory;
  static constexpr unsigned kPoints = kBoxPoints * D; // floats of a box
  static constexpr unsigned kExtents = 2 * D + 1;     // odd, so that lanes read different banks

  __device__ const float* points_in_memory(unsigned box) const {
    return task_.points + std::size_t{place(box)} * kPoints;
  }

  __device__ std::uint8_t& label_in_memory(unsigned box) const {
    return task_.labels[std::size_t{place(box)} * kBoxPoints + threadIdx.x % 32];
  }

  const Task& task_;
  float* s_points_;        // [resident, D, 32]
  float* s_extents_;       // [most, kExtents]
  std::uint8_t* s_labels_; // [most, 32]
};

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: the
/// boxes.
template <unsigned D, unsigned lanes, Store store>
__global__ void __launch_bounds__(kThreads, 1) cluster_points(const Task task) {
  constexpr unsigned kMaxClusters = LanesOfBox<D, lanes>::kMaxClusters;
  constexpr unsigned kCopies = LanesOfBox<D, lanes>::kCopies;
  using Sums = MovedGroups<D, kCopies>;
  constexpr unsigned kMaxValues = kMaxClusters * (D + 1);
  extern __shared__ __align__(16) float s_room[];
  __shared__ __align__(16) float s_centroids[kMaxClusters * kStride<D>];
  __shared__ double s_totals[kMaxValues + 1];
  __shared__ typename CountedSums<D>::Units s_units_of_sums;
  static_assert(kMaxValues + 1 <= kThreads); // an owner each
  __shared__ double s_losses[kThreads / 32];
  __shared__ long long s_rests[kMaxValues];
  __shared__ int s_words[kMaxClusters * kCopies * Sums::kWords];
  __shared__ float s_to_word[D + 1];
  __shared__ double s_units[D + 1];
  __shared__ unsigned s_moved, s_opened;

  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned values = task.k * (D + 1); // and one more for the stop rule
  const BoxesOfBlock<D, lanes, store> boxes(task, s_room);
  const Sums own_sums(s_words, s_rests, s_to_word, s_units, task.next, task.k);
  CountedSums<D> sums(task.run, task.k, task.d, task.words, task.units, s_units_of_sums, s_totals);

  const unsigned count = boxes.count();
  boxes.load();
  load_centroids<D, kThreads>(task.run.initial, task.k, task.d, s_centroids);
  own_sums.clear();
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
    for (unsigned first = warp * 32 / lanes; first < count; first += kThreads / lanes) {
      const unsigned own = first + lane / lanes, box = min(own, count - 1);
      const float* extents = boxes.extents(box);
      const unsigned rival =
          pass > 0 ? boxes.s_rivals[box] : nearest_centroid<D, lanes>(extents, s_centroids, task.k);
      const Candidates candidates =
          candidates_of<D, lanes>(extents, s_centroids, task.k, rival & ~kSettled);
      const bool one = over_lanes<lanes>(candidates.count()) == 1;
      // One candidate is the rival, which never rules itself out.
      const bool quiet = (rival & kSettled) != 0 && one && !wants_loss;
      // The order matters to the loss, a floating-point sum.
      boxes.open(own < count && !quiet, box, candidates, one, wants_loss, &s_opened);
    }
    __syncthreads(); // all open boxes are listed

    double loss = 0.0;
    unsigned moved = 0;
    for (unsigned i = warp; i < s_opened; i += kThreads / 32) { // a lane a point
      const unsigned box = boxes.s_open[i] & ~kOneCandidate;
      const unsigned settled = boxes.s_open[i] & kOneCandidate; // if all go to the same
      float x[D];
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        x[f] = boxes.points(box)[f * kBoxPoints + lane];
      }
      const bool real = boxes.place(box) * kBoxPoints + lane < task.n;
      std::uint8_t& own_label = boxes.label(box);
      const unsigned before = pass > 0 ? own_label : kNowhere;
      float squared = 0.0f;
      const unsigned label =
          nearest_of<D, lanes>(x, s_centroids, boxes.s_candidates + i * lanes, squared);
      const unsigned moving = __ballot_sync(kAllLanes, real && label != before);
      if (moving != 0) {
        own_label = static_cast<std::uint8_t>(label);
        own_sums.move_lanes(moving, x, before, label);
        moved += static_cast<unsigned>(__popc(moving));
      }
      if (lane == 16) { // in the middle, at least along one feature
        boxes.s_rivals[box] = static_cast<std::uint16_t>(label | settled);
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
        return own_sums.sum(v);
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
  boxes.store_labels();
}

/// A compiled form of the kernel, and what it wants of shared memory.
struct Form {
  Store store;
  std::size_t bytes_of_box, bytes_of_points;
  void (*kernel)(const Task);

  template <unsigned D, unsigned lanes, Store store>
  static constexpr Form of() {
    using Boxes = BoxesOfBlock<D, lanes, store>;
    return {store, Boxes::bytes_of_box(), Boxes::bytes_of_points(),
            cluster_points<D, lanes, store>};
  }
};
/// A compiled size: up to so many features and clusters.
struct Size {
  unsigned d, max_k;
  std::array<Form, 2> forms; ///< the first that fits is the faster one

  template <unsigned D, unsigned lanes>
  static constexpr Size of() {
    return {D,
            LanesOfBox<D, lanes>::kMaxClusters,
            {Form::of<D, lanes, Store::shared_memory>(), Form::of<D, lanes, Store::memory>()}};
  }
};
constexpr std::array kSizes{Size::of<1, 1>(), Size::of<2, 1>(), Size::of<3, 1>(), Size::of<4, 1>(),
                            Size::of<6, 1>(), Size::of<8, 1>(), Size::of<1, 4>(), Size::of<2, 4>(),
                            Size::of<3, 4>(), Size::of<4, 4>()};
constexpr unsigned kMaxClusters = LanesOfBox<1, 4>::kMaxClusters;

/// The first size that takes so many features and clusters; null if there is none.
const Size* size_for(std::size_t d, std::size_t k) {
  const auto* size =
      std::ranges::find_if(kSizes, [=](const Size& one) { return one.d >= d && one.max_k >= k; });
  return size == kSizes.end() ? nullptr : size;
}

/// Of so many features.
unsigned most_clusters(std::size_t d) {
  unsigned most = 0;
  for (const Size& size : kSizes) {
    most = size.d >= d ? std::max(most, size.max_k) : most;
  }
  return most;
}

class KmeansCudaBoxes final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::string reason = refuse_clustered(shape, kMaxFeatures, kMaxClusters);
    if (!reason.empty()) {
      return reason;
    }
    const Size* size = size_for(shape.d, shape.k);
    if (size == nullptr) {
      return "k = " + std::to_string(shape.k) + ": at most " +
             std::to_string(most_clusters(shape.d)) + " of d = " + std::to_string(shape.d);
    }
    const std::size_t limit = shared_memory_limit();
    const std::size_t bytes = limit > kOtherShared ? limit - kOtherShared : 0;
    const std::size_t most =
        std::min<std::size_t>(bytes / size->forms.back().bytes_of_box, kSettled);
    return refuse_rows(shape.n, most * kBoxPoints);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    const Size& size = *size_for(shape.d, shape.k);
    launch_.prepare(shape);
    form_ = std::ranges::find_if(size.forms, [&](const Form& form) {
      grid_ = one_block_per_multiprocessor(form.kernel, shape.n, kThreads, kThreads,
                                           CountedWord::kMostParts);
      return boxes_of_block(shape.n) * form.bytes_of_box <= grid_.shared_bytes;
    });
    if (form_ == size.forms.end()) {
      throw std::runtime_error("the boxes of " + std::to_string(shape.n) +
                               " points do not fit shared memory");
    }
    boxes_ = KdBoxes::of(points.rows, shape.n, shape.d, size.d);
    d_labels_ = DeviceBuffer<std::uint8_t>(std::size_t{boxes_.boxes} * kBoxPoints);
    const std::size_t most = boxes_of_block(shape.n);
    d_words_ = DeviceBuffer<std::uint64_t>(CountedWords::size(shape.k * (size.d + 1) + 1));
    d_words_.zero();
    const int bits = moved_bits(most * kBoxPoints);
    const Magnitudes of_rows = device_magnitudes(points.rows, shape.d);
    task_ = {.run = {},
             .points = boxes_.points.data(),
             .extents = boxes_.extents.data(),
             .labels = d_labels_.data(),
             .n = static_cast<unsigned>(shape.n),
             .d = static_cast<unsigned>(shape.d),
             .k = static_cast<unsigned>(shape.k),
             .boxes = boxes_.boxes,
             .most = static_cast<unsigned>(most),
             .resident = static_cast<unsigned>(std::min(
                 most, (grid_.shared_bytes - most * form_->bytes_of_box) / form_->bytes_of_points)),
             .to_word = ToWords<kMaxFeatures>::of(of_rows, bits),
             .next = std::ldexp(1.0f, bits),
             .units = SumUnits<kMaxFeatures>::of(of_rows, most * kBoxPoints),
             .words = d_words_.data()};
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    const auto restore = [&] {
      restore_order<<<blocks_at_most(task_.n, 256, 65536), 256>>>(
          d_labels_.data(), boxes_.places.data(), task_.n, answer.labels.data());
      check_launch("restore_order");
    };
    launch_.run(start, answer, observer, form_->kernel, task_, grid_, LabelsBefore::kept, restore);
  }

  std::string chosen_path() const override {
    return form_->store == Store::memory ? "boxes and labels in memory" : "";
  }

private:
  std::size_t boxes_of_block(std::size_t n) const {
    return ceil_div(ceil_div(n, kBoxPoints), grid_.blocks);
  }

  const Form* form_ = nullptr;
  Task task_{};
  ClusterLaunch grid_{};
  OneLaunch<> launch_;
  KdBoxes boxes_;
  DeviceBuffer<std::uint8_t> d_labels_;
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

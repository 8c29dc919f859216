// K-means with few features and many clusters: a point sees only the centroids near its box.
//
// Changed since kmeans_cuda_boxes: boxes of 32 points lie in regions of 32 boxes. A region first
//   lists the centroids that may be the nearest of some point in it; a box tests those alone, and
//   its points those that are left. So k may be large: every list is short, whatever k is.
// Source: kmeans_cuda_boxes; Kanungo et al., 2002, "An efficient k-means clustering algorithm:
//   analysis and implementation", with two levels of the tree, each compared side by side.
// Cost per iteration: n / 1024 regions with k centroids and n / 32 boxes with those of their
//   region, 5 d + 10 instructions each; 2 d + 5 for a point and each centroid left; two 64-bit
//   atomics a coordinate that moves; two launches. In two features some 3 centroids are left, in
//   eight hundreds.
// Limits: float; d <= 8, padded to the next size that was compiled; k <= 65,536. Exact integer
//   sums: the same bits in every run.
// Needs: sm_80
#include "impls/contract.hpp"
#include "impls/cuda/common/exact_words.cuh"
#include "impls/cuda/common/magnitudes.hpp"
#include "impls/cuda/few_features/kd_boxes.cuh"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256, kWarps = kThreads / 32;
constexpr unsigned kRegionBoxes = 32;      // a lane each
constexpr std::size_t kCopiedWords = 4096; // sums of fewer values are kept in several copies
constexpr unsigned kMostClusters = 65536;  // labels have 16 bits
constexpr unsigned kSettled = 1u << 31;    // in the rival of a box: it is the label of all points
template <unsigned D>
constexpr unsigned kBlocks = D <= 3   ? 8
                             : D <= 4 ? 6
                                      : 5; // resident on a multiprocessor
/// Of a region's list: leaves room for those blocks.
template <unsigned D>
constexpr unsigned kListBytes = (D <= 4 ? 12 : 24) << 10;

/// Centroids that a region's list holds; if more are near, they come in several lists.
template <unsigned D>
constexpr unsigned kListed = kListBytes<D> / (kStride<D> * sizeof(float) + sizeof(std::uint16_t)) /
                             32 * 32;

struct Task {
  const float* points;         // [boxes, D, 32]
  const float* extents;        // [boxes, 2, D]: middle, and half of the width
  const float* region_extents; // [regions, 2, D]
  const float* centroids;      // [k, kStride<D>]
  std::uint16_t* labels;       // [boxes, 32]
  unsigned* rivals;            // [boxes]: the centroid that others are compared with
  SumsView sums;               // [copies, k, d]
  double* losses;              // [regions], or null
  unsigned* moved;             // to count points in whose label has changed, or null
  unsigned long long* listed;  // the same for what the lists of all regions hold, or null
  unsigned n, d, k, boxes;
  // of the sums, a power of two up to 32: blocks add to different ones side by side
  unsigned copies;
  bool first_pass;

  __device__ SumsView sums_of(unsigned block) const {
    const std::size_t copy = block % copies, values = std::size_t{k} * d;
    return {sums.point, sums.high + copy * values, sums.low + copy * values,
            sums.counts + copy * k};
  }
};

/// A place, half a width, and the centroid that others are compared with.
template <unsigned D>
struct Box {
  float middle[D], half[D], rival[D], to_rival;

  __device__ explicit Box(const float* extents) {
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      middle[f] = extents[f];
      half[f] = extents[D + f];
    }
  }
  __device__ void set_rival(const float* centroid) {
    read_centroid<D>(centroid, rival);
    to_rival = squared_distance(middle, rival);
  }
  /// False if the rival is nearer everywhere in the box: the difference of the squared distances is
  /// linear, so the corner that is best for c decides.
  __device__ bool may_hold(const float (&c)[D]) const {
    // Of sums of 2 D products, each of them rounded a few times.
    constexpr float kSlack = static_cast<float>(4 * D + 16) * 0x1p-24f;
    const float to_this = squared_distance(middle, c);
    float reach = 0.0f;
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      reach += fabsf(half[f] * (c[f] - rival[f]));
    }
    const float sum = to_this + to_rival + 2.0f * reach;
    return !(to_this - to_rival - 2.0f * reach > fmaf(kSlack, sum, FLT_MIN));
  }
  /// All lanes of a warp: of centroids first, first + step, ... the nearest to the middle.
  __device__ unsigned nearest(const float* centroids, unsigned first, unsigned step, unsigned count,
                              float& squared) const {
    unsigned found = 0;
    squared = INFINITY;
    for (unsigned j = first; j < count; j += step) {
      float c[D];
      read_centroid<D>(centroids + std::size_t{j} * kStride<D>, c);
      const float its = squared_distance(middle, c);
      found = its < squared ? j : found;
      squared = fminf(squared, its);
    }
    const unsigned least = __reduce_min_sync(kAllLanes, ordered(squared));
    const unsigned who = __ballot_sync(kAllLanes, ordered(squared) == least);
    squared = unordered(least);
    return __shfl_sync(kAllLanes, found, __ffs(static_cast<int>(who)) - 1);
  }
};

/// All lanes of a warp: the points of the lanes in `moving` go from one cluster to another, in the
/// first pass from none, a few of them each on its own, more of them added up before where they go
/// the same way.
template <unsigned D>
__device__ void move_lanes(const SumsView& sums, unsigned d, unsigned moving, const float (&x)[D],
                           bool first_pass, unsigned from, unsigned to) {
  constexpr int kFew = 8;
  const unsigned lane = threadIdx.x % 32;
  const auto add = [&](unsigned f, const FixedWords& words) {
    add_exactly(sums, std::size_t{to} * d + f, words);
    if (!first_pass) {
      add_exactly(sums, std::size_t{from} * d + f, {-words.high, -words.low});
    }
  };
  const auto count = [&](unsigned points) {
    atomicAdd(&sums.counts[to], points);
    if (!first_pass) {
      atomicSub(&sums.counts[from], points);
    }
  };
  if (__popc(moving) <= kFew) {
    if ((moving >> lane & 1) != 0) {
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        if (f < d) {
          add(f, FixedWords::of(x[f], sums.point));
        }
      }
      count(1);
    }
    return;
  }
  while (moving != 0) { // a way at a time
    const int first = __ffs(static_cast<int>(moving)) - 1;
    const unsigned way = from << 16 | to, its_way = __shfl_sync(kAllLanes, way, first);
    const unsigned group = __ballot_sync(kAllLanes, way == its_way) & moving;
    const bool mine = (group >> lane & 1) != 0;
#pragma unroll
    for (unsigned f = 0; f < D; ++f) {
      FixedWords words = mine ? FixedWords::of(x[f], sums.point) : FixedWords{};
      words = {over_lanes<32>(words.high), over_lanes<32>(words.low)};
      if (f < d && lane == static_cast<unsigned>(first)) {
        add(f, words);
      }
    }
    if (lane == static_cast<unsigned>(first)) {
      count(static_cast<unsigned>(__popc(group)));
    }
    moving &= ~group;
  }
}

/// What a block knows of its region, in shared memory.
template <unsigned D>
struct Region {
  static constexpr unsigned kWords = kListed<D> / 32;

  float list[kListed<D> * kStride<D>]; ///< centroids that may be the nearest of some point
  std::uint16_t names[kListed<D>];     ///< and which they are
  unsigned near[kWords][kRegionBoxes]; ///< those of a box: bits of the list
  unsigned open[kRegionBoxes];         ///< boxes whose points have to be looked at
  unsigned listed, opened, moved;
  float squared[kWarps];
  unsigned rivals[kWarps];
  double losses[kWarps];
  float nearest[kRegionBoxes * 32]; ///< of the lists before, where there are several
  std::uint16_t labels[kRegionBoxes * 32];

  /// All lanes of a warp: adds the centroids of the lanes that are `near`, in any order. What does
  /// not fit is only counted.
  __device__ void add(bool is_near, unsigned j, const float (&c)[D]) {
    const unsigned lane = threadIdx.x % 32, lanes = __ballot_sync(kAllLanes, is_near);
    if (lanes == 0) {
      return;
    }
    unsigned place = lane == 0 ? atomicAdd(&listed, static_cast<unsigned>(__popc(lanes))) : 0;
    place = __shfl_sync(kAllLanes, place, 0) +
            static_cast<unsigned>(__popc(lanes & ((1u << lane) - 1)));
    if (is_near && place < kListed<D>) {
      names[place] = static_cast<std::uint16_t>(j);
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        list[place * kStride<D> + f] = c[f];
      }
    }
  }
};

/// One block a region: gives every point of it its nearest centroid and moves the sums.
template <unsigned D>
__global__ void __launch_bounds__(kThreads, kBlocks<D>) label_regions(const Task task) {
  __shared__ __align__(16) Region<D> s_region;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned first_box = blockIdx.x * kRegionBoxes;
  const unsigned count = min(kRegionBoxes, task.boxes - first_box);
  const SumsView sums = task.sums_of(blockIdx.x);
  if (threadIdx.x == 0) {
    s_region.listed = s_region.moved = 0;
  }

  // A lane a box of the region, in all warps: they share the centroids.
  const unsigned own_box = first_box + min(lane, count - 1);
  Box<D> own(task.extents + std::size_t{own_box} * 2 * D);
  Box<D> whole(task.region_extents + std::size_t{blockIdx.x} * 2 * D);
  unsigned rival = task.rivals[own_box];
  if (task.first_pass) {
    float squared;
    const unsigned mine = whole.nearest(task.centroids, threadIdx.x, kThreads, task.k, squared);
    if (lane == 0) {
      s_region.rivals[warp] = mine;
      s_region.squared[warp] = squared;
    }
    __syncthreads(); // those of all warps are there
    float least = INFINITY;
    for (unsigned w = 0; w < kWarps; ++w) {
      rival = s_region.squared[w] < least ? s_region.rivals[w] : rival;
      least = fminf(least, s_region.squared[w]);
    }
  } else {
    __syncthreads(); // the counts are zero
  }
  own.set_rival(task.centroids + std::size_t{rival & ~kSettled} * kStride<D>);
  const unsigned middle = __shfl_sync(kAllLanes, rival & ~kSettled, static_cast<int>(count / 2));
  whole.set_rival(task.centroids + std::size_t{middle} * kStride<D>);

  double loss = 0.0;
  unsigned moved = 0;
  for (unsigned first = 0, step = task.k; first < task.k;) {
    const unsigned end = min(task.k, first + step);
    for (unsigned base = first + warp * 32; base < end; base += kThreads) { // a lane a centroid
      const unsigned j = min(base + lane, task.k - 1);
      float c[D];
      read_centroid<D>(task.centroids + std::size_t{j} * kStride<D>, c);
      s_region.add(base + lane < end && whole.may_hold(c), j, c);
    }
    __syncthreads(); // the list is complete
    const unsigned listed = s_region.listed;
    if (listed > kListed<D>) { // once more, in parts that are certain to fit
      step = kListed<D>;
      __syncthreads(); // all have seen it
      if (threadIdx.x == 0) {
        s_region.listed = 0;
      }
      __syncthreads(); // it is zero
      continue;
    }
    if (task.first_pass && listed > 0) { // a better rival of each box
      float least = own.to_rival;
      unsigned found = listed;
      for (unsigned e = 0; e < listed; ++e) {
        float c[D];
        read_centroid<D>(s_region.list + e * kStride<D>, c);
        const float squared = squared_distance(own.middle, c);
        found = squared < least ? e : found;
        least = fminf(least, squared);
      }
      if (found < listed) {
        own.set_rival(s_region.list + found * kStride<D>);
      }
    }
    const unsigned words = (listed + 31) / 32;
    for (unsigned word = warp; word < words; word += kWarps) { // a lane a box
      unsigned near = 0;
      for (unsigned e = 0; e < min(32u, listed - word * 32); ++e) {
        float c[D];
        read_centroid<D>(s_region.list + (word * 32 + e) * kStride<D>, c);
        near |= own.may_hold(c) ? 1u << e : 0u;
      }
      s_region.near[word][lane] = near;
    }
    __syncthreads(); // all boxes know theirs
    const bool whole_list = step == task.k;
    if (warp == 0) {
      unsigned candidates = 0, last = 0;
      for (unsigned word = 0; word < words; ++word) {
        const unsigned near = s_region.near[word][lane];
        candidates += static_cast<unsigned>(__popc(near));
        last = near != 0 ? s_region.names[word * 32 + 31 - __clz(static_cast<int>(near))] : last;
      }
      // Nothing but the rival is near, and all points have its label.
      const bool quiet =
          whole_list && candidates == 1 && rival == (last | kSettled) && task.losses == nullptr;
      const unsigned opened = __ballot_sync(kAllLanes, lane < count && !quiet);
      if ((opened >> lane & 1) != 0) {
        s_region.open[__popc(opened & ((1u << lane) - 1))] =
            lane | (whole_list && candidates == 1 ? kSettled : 0);
      }
      s_region.opened = static_cast<unsigned>(__popc(opened));
    }
    __syncthreads(); // the open boxes are listed

#pragma unroll 1
    for (unsigned i = warp; i < s_region.opened; i += kWarps) { // a lane a point
      const unsigned settled = s_region.open[i] & kSettled,
                     in_region = s_region.open[i] & ~kSettled;
      const unsigned box = first_box + in_region;
      const std::size_t place = std::size_t{box} * kBoxPoints + lane;
      const unsigned before = task.labels[place];
      float x[D];
#pragma unroll
      for (unsigned f = 0; f < D; ++f) {
        x[f] = task.points[(std::size_t{box} * D + f) * kBoxPoints + lane];
      }
      float nearest = first == 0 ? INFINITY : s_region.nearest[in_region * 32 + lane];
      unsigned label = first == 0 ? task.k : s_region.labels[in_region * 32 + lane];
      for (unsigned word = 0; word < words; ++word) {
        for (unsigned near = s_region.near[word][in_region]; near != 0; near &= near - 1) {
          const unsigned e = word * 32 + static_cast<unsigned>(__ffs(static_cast<int>(near))) - 1;
          const unsigned j = s_region.names[e];
          float c[D];
          read_centroid<D>(s_region.list + e * kStride<D>, c);
          const float squared = squared_distance(x, c);
          // The list has no order: ties go to the lowest index.
          label = squared < nearest || (squared == nearest && j < label) ? j : label;
          nearest = fminf(nearest, squared);
        }
      }
      if (end < task.k) { // the next list goes on from here
        s_region.nearest[in_region * 32 + lane] = nearest;
        s_region.labels[in_region * 32 + lane] = static_cast<std::uint16_t>(label);
        continue;
      }
      const bool real = place < task.n;
      const bool moves = task.first_pass || label != before;
      const unsigned moving = __ballot_sync(kAllLanes, real && moves);
      if (moving != 0) {
        task.labels[place] = static_cast<std::uint16_t>(label);
        move_lanes(sums, task.d, moving, x, task.first_pass, before, label);
        moved += static_cast<unsigned>(__popc(moving));
      }
      // Of a point in the middle, at least along one feature.
      if (lane == (box * kBoxPoints + 16 < task.n ? 16 : 0)) {
        task.rivals[box] = label | settled;
      }
      if (task.losses != nullptr && real) {
        loss += static_cast<double>(sqrtf(nearest));
      }
    }
    if (task.listed != nullptr && threadIdx.x == 0) {
      atomicAdd(task.listed, listed);
    }
    first = end;
    if (first < task.k) {
      __syncthreads(); // the list is done with
      if (threadIdx.x == 0) {
        s_region.listed = 0;
      }
      __syncthreads(); // it is zero
    }
  }

  if (task.moved != nullptr && lane == 0 && moved > 0) {
    atomicAdd(&s_region.moved, moved);
  }
  if (task.losses != nullptr) {
    loss = over_lanes<32>(loss);
    if (lane == 0) {
      s_region.losses[warp] = loss;
    }
  }
  if (task.moved != nullptr || task.losses != nullptr) {
    __syncthreads(); // those of all warps are there
    if (threadIdx.x == 0) {
      if (task.losses != nullptr) {
        for (unsigned w = 1; w < kWarps; ++w) {
          loss += s_region.losses[w];
        }
        task.losses[blockIdx.x] = loss;
      }
      if (task.moved != nullptr && s_region.moved > 0) {
        atomicAdd(task.moved, s_region.moved);
      }
    }
  }
}

/// Moves every centroid to its mean, a warp a centroid, a lane a copy of its sums; an empty cluster
/// stays where it is. Centroids [k, d]; padded: [k, stride], zero behind d; entering: [k, d], what
/// centroids were before; shifts: [k] squared, or null. Without `entering` it only fills `padded`.
__global__ void place_means(const Task task, unsigned stride, float* centroids, float* padded,
                            float* entering, double* shifts) {
  const unsigned j = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (j >= task.k) {
    return;
  }
  const SumsView own = task.sums_of(lane);
  const bool has_copy = entering != nullptr && lane < task.copies;
  const unsigned count = __reduce_add_sync(kAllLanes, has_copy ? own.counts[j] : 0);
  const double scale = count > 0 ? 1.0 / own.point.to_high / static_cast<double>(count) : 0.0;
  double shift = 0.0;
  for (unsigned f = 0; f < task.d; ++f) {
    const std::size_t place = std::size_t{j} * task.d + f;
    const long long high = over_lanes<32>(has_copy ? own.high[place] : 0);
    const long long low = over_lanes<32>(has_copy ? own.low[place] : 0);
    const float before = centroids[place];
    float mean = before;
    if (count > 0) {
      mean = static_cast<float>(
          (static_cast<double>(high) + static_cast<double>(low) / own.point.to_low) * scale);
      const double difference = static_cast<double>(mean) - static_cast<double>(before);
      shift += difference * difference;
    }
    if (lane == 0) {
      if (entering != nullptr) {
        entering[place] = before;
      }
      centroids[place] = mean;
      padded[std::size_t{j} * stride + f] = mean;
    }
  }
  if (shifts != nullptr && lane == 0) {
    shifts[j] = shift;
  }
}

/// extents: [boxes, 2, width] of boxes; regions: the same of 32 boxes each, a thread a feature.
__global__ void measure_regions(const float* extents, unsigned boxes, unsigned width,
                                float* regions) {
  const unsigned f = threadIdx.x, first = blockIdx.x * kRegionBoxes;
  const unsigned end = min(boxes, first + kRegionBoxes);
  float low = INFINITY, high = -INFINITY, half = 0.0f;
  for (unsigned box = first; box < end; ++box) {
    const float* its = extents + std::size_t{box} * 2 * width;
    low = fminf(low, its[f] - its[width + f]);
    high = fmaxf(high, its[f] + its[width + f]);
  }
  const float middle = 0.5f * low + 0.5f * high;
  for (unsigned box = first; box < end; ++box) {
    const float* its = extents + std::size_t{box} * 2 * width;
    half = fmaxf(half, __fadd_ru(fmaxf(__fsub_ru(its[f], middle), __fsub_ru(middle, its[f])),
                                 its[width + f]));
  }
  regions[std::size_t{blockIdx.x} * 2 * width + f] = middle;
  regions[std::size_t{blockIdx.x} * 2 * width + width + f] = half;
}

/// A compiled size of the kernel.
struct Size {
  unsigned d, stride;
  void (*kernel)(const Task);
};
template <unsigned D>
constexpr Size kSize{D, kStride<D>, label_regions<D>};
constexpr std::array kSizes{kSize<1>, kSize<2>, kSize<3>, kSize<4>, kSize<6>, kSize<8>};

class KmeansCudaNearby final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    if (shape.d > kSizes.back().d || shape.k > kMostClusters) {
      return std::to_string(shape.k) + " clusters of " + std::to_string(shape.d) +
             " features: at most " + std::to_string(kMostClusters) + " and " +
             std::to_string(kSizes.back().d);
    }
    return shape.n < std::size_t{1} << 29 ? "" : "points are sorted by numbers below 2^29";
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    shape_ = shape;
    size_ = *std::ranges::find_if(kSizes, [&](const Size& size) { return size.d >= shape.d; });
    const Magnitudes of_rows = device_magnitudes(points.rows, shape.d);
    boxes_ = KdBoxes::of(points.rows, shape.n, shape.d, size_.d);
    regions_ = blocks_for(boxes_.boxes, kRegionBoxes);
    d_regions_ = DeviceBuffer<float>(std::size_t{regions_} * 2 * size_.d);
    measure_regions<<<regions_, size_.d>>>(boxes_.extents.data(), boxes_.boxes, size_.d,
                                           d_regions_.data());
    check_launch("measure_regions");
    copies_ = static_cast<unsigned>(
        std::bit_floor(std::clamp<std::size_t>(kCopiedWords / (shape.k * shape.d), 1, 32)));
    const std::size_t values = copies_ * shape.k * shape.d;
    d_words_ = DeviceBuffer<long long>(2 * values + copies_ * shape.k); // a count: half of a word
    sums_ = {FixedPoint::of(shape.n, *std::ranges::max_element(of_rows.largest)), d_words_.data(),
             d_words_.data() + values, reinterpret_cast<unsigned*>(d_words_.data() + 2 * values)};
    d_padded_ = DeviceBuffer<float>(shape.k * size_.stride);
    d_padded_.zero();
    d_labels_ = DeviceBuffer<std::uint16_t>(std::size_t{boxes_.boxes} * kBoxPoints);
    d_rivals_ = DeviceBuffer<unsigned>(boxes_.boxes);
    d_parts_ = DeviceBuffer<double>(std::max<std::size_t>(shape.k, regions_));
    d_facts_ = DeviceBuffer<Facts>(1);
    host_ = PinnedBuffer<Facts>(1);
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    StopTest stop(shape_.stop);
    const auto k = static_cast<unsigned>(shape_.k);
    const bool counts = stop.wants_labels_changed() || observer.recording();
    Facts* const d_facts = d_facts_.data();
    Task task{.points = boxes_.points.data(),
              .extents = boxes_.extents.data(),
              .region_extents = d_regions_.data(),
              .centroids = d_padded_.data(),
              .labels = d_labels_.data(),
              .rivals = d_rivals_.data(),
              .sums = sums_,
              .losses = stop.wants_loss() ? d_parts_.data() : nullptr,
              .moved = counts ? &d_facts->moved : nullptr,
              .listed = observer.recording() ? &d_facts->listed : nullptr,
              .n = static_cast<unsigned>(shape_.n),
              .d = static_cast<unsigned>(shape_.d),
              .k = k,
              .boxes = boxes_.boxes,
              .copies = copies_,
              .first_pass = true};
    fill_bytes(d_labels_.span(), 0xFF);
    d_rivals_.zero();
    d_facts_.zero();
    d_words_.zero();
    copy_values(start.centroids, answer.centroids.data());
    place(task, answer, nullptr, nullptr);
    for (bool last = false; !last; task.first_pass = false) {
      if (counts) {
        d_facts_.zero();
      }
      {
        const Phase phase(observer, "assign", kDefaultStream);
        size_.kernel<<<regions_, kThreads>>>(task);
        check_launch("label_regions");
      }
      if (stop.wants_loss()) {
        add_up(regions_);
      }
      {
        const Phase phase(observer, "update", kDefaultStream);
        place(task, answer, answer.entering.data(), stop.wants_shift() ? d_parts_.data() : nullptr);
      }
      if (stop.wants_shift()) {
        add_up(k);
      }
      PassFacts facts;
      if (stop.wants_loss() || stop.wants_shift() || counts) {
        copy_values(d_facts_.span(), host_.data());
        check(cudaStreamSynchronize(kDefaultStream), "cudaStreamSynchronize after a pass");
        facts.loss = facts.squared_shift = host_[0].total;
        facts.labels_changed = host_[0].moved != 0;
      }
      if (observer.recording()) {
        observer.counter("moved", host_[0].moved / static_cast<double>(shape_.n));
        observer.counter("listed", static_cast<double>(host_[0].listed) / regions_);
      }
      observer.pass(answer.centroids);
      last = stop.after_pass(facts);
    }
    restore_order<<<blocks_at_most(shape_.n, 256, 65536), 256>>>(
        d_labels_.data(), boxes_.places.data(), task.n, answer.labels.data());
    check_launch("restore_order");
    answer.iterations = stop.passes();
  }

private:
  /// What the host asks for.
  struct Facts {
    double total; ///< the loss, or the squared shift
    unsigned long long listed;
    unsigned moved;
  };

  void place(const Task& task, const Answer<float>& answer, float* entering, double* shifts) {
    place_means<<<blocks_for(shape_.k * 32, 256), 256>>>(
        task, size_.stride, answer.centroids.data(), d_padded_.data(), entering, shifts);
    check_launch("place_means");
  }
  void add_up(unsigned parts) {
    sum_in_order<<<1, 256>>>(d_parts_.data(), parts, &d_facts_.data()->total);
    check_launch("sum_in_order");
  }

  Shape shape_;
  Size size_{};
  KdBoxes boxes_;
  unsigned regions_ = 0, copies_ = 1;
  SumsView sums_{};
  DeviceBuffer<float> d_regions_, d_padded_;
  DeviceBuffer<long long> d_words_; // of the sums
  DeviceBuffer<std::uint16_t> d_labels_;
  DeviceBuffer<unsigned> d_rivals_;
  DeviceBuffer<double> d_parts_;
  DeviceBuffer<Facts> d_facts_;
  PinnedBuffer<Facts> host_;
};

const Registration registration({.name = "kmeans_cuda_nearby",
                                 .idea = "a region lists the centroids near it, boxes test those",
                                 .source = "kmeans_cuda_boxes; Kanungo et al., 2002",
                                 .device = Device::gpu,
                                 .max_d = kSizes.back().d,
                                 .max_k = kMostClusters,
                                 .previous = "kmeans_cuda_boxes"},
                                f32_only<KmeansCudaNearby>());

} // namespace
} // namespace clusterbench

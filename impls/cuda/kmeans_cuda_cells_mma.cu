// K-means with some features and up to 64 clusters: integer cells, and products on tensor cores.
//
// Changed since kmeans_cuda_cells: a warp takes 16 rows, splits their values in registers into two
//   float16 parts of 11 bits, and multiplies them with all centroids' (three products of parts, of
//   16 features and 8 clusters each), where a score took an instruction a feature. Where one score
//   alone is least beyond all rounding, it has the label; other rows are compared by squared
//   differences, all lanes of the warp together. The lane that splits a value also adds it to cells
//   of its own, as integers.
// Source: kmeans_cuda_cells; the parts as in kmeans_cuda_split, the bound: docs/certified.md.
// Cost per iteration: 4 n d bytes; for 16 rows 3 k d / 128 products and about 10 d + 4 k + 250
//   other instructions of a warp; 2 n k d flops of them useful; about 8 us between blocks.
// Limits: float; d <= 64, k <= 64, what shared memory holds, else refused; n < 2^31; rows are
//   padded to four features. Rows far from the origin, of which nearly all would be compared, are
//   refused (far_rows.hpp). Same bits.
// Needs: sm_80
#include "impls/contract.hpp"
#include "impls/cuda/support/certified_bound.hpp"
#include "impls/cuda/support/device_magnitudes.cuh"
#include "impls/cuda/support/end_pass.cuh"
#include "impls/cuda/support/grid.hpp"
#include "impls/cuda/support/integer_sums.cuh"
#include "impls/cuda/support/magnitudes.hpp"
#include "impls/cuda/support/padded_rows.cuh"
#include "impls/cuda/support/split_products.cuh"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <string>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kMaxFeatures = 64, kMaxClusters = 64;
/// As many threads as leave them the registers they need: 128 or 168.
template <unsigned kChunks, unsigned T>
constexpr unsigned kThreads = kChunks == 1 || (kChunks <= 3 && T <= 3) ? 512 : 384;

struct Task {
  RunTask run;
  ProductRows rows;
  unsigned d, copies; // features; of the cells
  ToWords<kMaxFeatures> to_word;
  long long* words; // of GridSums
};

/// The whole run. One block a multiprocessor, all of them resident. Dynamic shared memory: see
/// below.
template <unsigned kChunks, unsigned T>
__global__ void __launch_bounds__(kThreads<kChunks, T>, 1) cluster_rows(const Task task) {
  using Cells = QuadCells<kChunks>;
  constexpr unsigned kAll = kThreads<kChunks, T>, kWarps = kAll / 32;
  extern __shared__ __align__(16) uint4 s_parts[]; // [T, kChunks, 32], then:
  ProductRows rows = task.rows;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = rows.n, k = rows.k;
  rows.s_parts = s_parts;
  rows.s_half_squares = reinterpret_cast<float*>(s_parts + T * kChunks * 32); // [8 T]
  float* s_to_word = rows.s_half_squares + 8 * T;                             // [kMaxFeatures]
  rows.s_centroids = s_to_word + kMaxFeatures;                                // [8 T, stride]
  long long* s_rests = reinterpret_cast<long long*>(rows.s_centroids + 8 * T * rows.stride());
  const Cells cells{reinterpret_cast<int*>(s_rests + k * Cells::kFeatures),
                    s_rests,
                    s_to_word,
                    k,
                    task.d,
                    task.copies};
  constexpr int kSpare = 62 - 2 * Cells::kBits; // bits of n that leave a sum below 2^62
  GridSums sums(task.words, k * (task.d + 1), n >> kSpare > 0);

  for (unsigned e = threadIdx.x; e < 8 * T * rows.stride(); e += kAll) {
    const unsigned j = e / rows.stride(), f = e % rows.stride();
    rows.s_centroids[e] = j < k && f < task.d ? task.run.initial[j * task.d + f] : 0.0f;
  }
  for (unsigned e = threadIdx.x; e < kMaxFeatures; e += kAll) {
    s_to_word[e] = task.to_word.factor[e];
  }
  cells.template clear<kAll>();
  const unsigned tiles = (n + kRows - 1) / kRows;
  const unsigned round = task.copies * Cells::kPoints / (kRows * kWarps); // until cells are full
  double previous = INFINITY;
  std::size_t pass = 0;
  bool last = false;
  __syncthreads(); // all of this is there
  task.run.note_time(0);

  while (!last) {
    split_centroids<kChunks, T, kAll>(rows);
    __syncthreads(); // the parts are there
    const bool keep_labels = task.run.keeps_labels(pass);
    // Every second pass goes backwards: what was read last is still in L2.
    const auto tile_of = [&](unsigned i) { return pass % 2 == 0 ? i : tiles - 1 - i; };
    double wanted = 0.0;
    Tile<kChunks> x, next;
    unsigned step = 0;
    if (blockIdx.x * kWarps + warp < tiles) {
      fetch_tile<kChunks>(rows, tile_of(blockIdx.x * kWarps + warp), x);
    }
    for (unsigned first = blockIdx.x * kWarps; first < tiles; first += gridDim.x * kWarps) {
      const unsigned i = first + warp;
      if (i < tiles) {
        const unsigned tile = tile_of(i);
        unsigned label[2];
        find_labels<kChunks, T>(rows, tile, x, label);
        if (i + gridDim.x * kWarps < tiles) { // arrives while this tile is added
          fetch_tile<kChunks>(rows, tile_of(i + gridDim.x * kWarps), next);
        }
#pragma unroll
        for (unsigned h = 0; h < 2; ++h) {
          const unsigned row = tile * kRows + h * 8 + lane / 4;
          const bool wants_loss = task.run.rule == StopRule::Kind::loss;
          const float squared = wants_loss ? distance_to<kChunks>(rows, x[h], label[h]) : 0.0f;
          if (row < n) {
            cells.add(x[h], label[h]);
            if (keep_labels && lane % 4 == 0) {
              std::int32_t& kept = task.run.labels[row];
              const auto now = static_cast<std::int32_t>(label[h]);
              if (wants_loss) {
                wanted += static_cast<double>(sqrtf(squared));
              } else if (task.run.rule == StopRule::Kind::labels) {
                wanted += kept != now ? 1.0 : 0.0;
              }
              kept = now;
            }
          }
          __syncwarp(); // lanes without a row have not waited
        }
#pragma unroll
        for (unsigned e = 0; e < 2 * kChunks; ++e) {
          x[e / kChunks][e % kChunks] = next[e / kChunks][e % kChunks];
        }
      }
      if (++step % round == 0) {
        __syncthreads(); // the cells have the rows of all warps
        cells.template drain<kAll>(sums);
        __syncthreads(); // the cells are empty again
      }
    }
    __syncthreads(); // the cells have the rows of all warps
    cells.template drain<kAll>(sums);
    const auto place_of = [&](unsigned j, unsigned f) { return j * rows.stride() + f; };
    share_fact<kAll>(task.run, sums, wanted);
    sums.finish();
    const auto mean_of = [&](unsigned j, unsigned f, float old) {
      const double unit = static_cast<double>(s_to_word[f]) * (1 << Cells::kBits);
      return sums.mean(j, f, task.d + 1, unit, old);
    };
    last = end_pass<kAll>(task.run, sums, k, task.d, mean_of, rows.s_centroids, place_of, pass,
                          previous);
  }
}

struct Size {
  unsigned chunks, tiles, threads;
  void (*kernel)(const Task);
};
template <unsigned kChunks, unsigned T>
constexpr Size kSize{kChunks, T, kThreads<kChunks, T>, cluster_rows<kChunks, T>};
constexpr std::array kSizes{// the first that is large enough is taken
                            kSize<1, 3>, kSize<2, 3>, kSize<3, 3>, kSize<4, 3>,
                            kSize<1, 8>, kSize<2, 8>, kSize<3, 8>, kSize<4, 8>};
constexpr std::size_t kStatic = 1024; // of shared memory, at most

/// The kernel for a shape, and bytes of shared memory beside the cells and of one copy of them.
struct Plan {
  const Size* size;
  std::size_t width, beside, copy;

  static Plan of(std::size_t d, std::size_t k) {
    const Size* size = std::ranges::find_if(
        kSizes, [=](const Size& one) { return one.chunks * 16 >= d && one.tiles * 8 >= k; });
    const std::size_t width = padded_width(d);
    return {size, width,
            size->tiles * size->chunks * 32 * sizeof(uint4) +
                (8 * size->tiles * (width + 5) + kMaxFeatures) * sizeof(float) +
                k * 16 * size->chunks * sizeof(long long),
            k * 4 * (8 * size->chunks + 1) * sizeof(int)};
  }
};

class KmeansCudaCellsMma final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    const std::string reason = refuse_clustered(shape, kMaxFeatures, kMaxClusters);
    if (!reason.empty()) {
      return reason;
    }
    const Plan plan = Plan::of(shape.d, shape.k);
    return refuse_shared(plan.beside + plan.copy + kStatic);
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    const Plan plan = Plan::of(shape.d, shape.k);
    kernel_ = plan.size->kernel;
    launch_.prepare(shape);
    const Magnitudes of_points = device_magnitudes(points.rows, shape.d);
    longest_ = of_points.longest;
    throw_if_far(points.rows, shape.d, shape.k, longest_);
    rows_ = PaddedRows(points.rows, shape.n, shape.d, ceil_div(shape.n, kRows) * kRows);
    const std::size_t room = shared_memory_limit() - kStatic;
    const std::size_t copies =
        std::bit_floor(std::min<std::size_t>(8, (room - plan.beside) / plan.copy));
    // A block that takes all shared memory is alone on its multiprocessor.
    shape_ = {.blocks = 0, .threads = plan.size->threads, .cluster = 1, .shared_bytes = room};
    shape_.blocks = static_cast<unsigned>(std::min<std::size_t>(
        resident_in_clusters(kernel_, shape_), ceil_div(shape.n, kRows * plan.size->threads / 32)));
    d_words_ = DeviceBuffer<long long>(GridSums::words(shape.k * (shape.d + 1), shape_.blocks));
    d_words_.zero();
    start_ = PinnedBuffer<float>(shape.k * shape.d);
    task_.rows.rows = rows_.data();
    task_.rows.n = static_cast<unsigned>(shape.n);
    task_.rows.width = static_cast<unsigned>(plan.width);
    task_.rows.k = static_cast<unsigned>(shape.k);
    task_.d = static_cast<unsigned>(shape.d);
    task_.copies = static_cast<unsigned>(copies);
    task_.to_word = ToWords<kMaxFeatures>::of(of_points, QuadCells<1>::kBits);
    task_.words = d_words_.data();
  }

  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    fit_scale(start_on_host(start.centroids, start_));
    launch_.run(start, answer, observer, kernel_, task_, shape_);
  }

private:
  /// The parts' scale and the scores' error, of points and a start: means are no longer than the
  /// longest point, nor are empty clusters than the centroids of the start.
  void fit_scale(std::span<const float> start) {
    const double x = longest_, c = std::max(x, longest_row(start, task_.d));
    // Vectors no longer than 64: no part or score overflows, and parts reach far down.
    const int exponent = c > 0.0 ? std::clamp(std::ilogb(c), -110, 127) : 5;
    const double power = std::ldexp(1.001, 5 - exponent); // norms are rounded
    task_.rows.scale = std::ldexp(1.0f, 5 - exponent);
    task_.rows.certain = 2.0f * split_error_small_first(task_.d).of(static_cast<float>(power * x),
                                                                    static_cast<float>(power * c));
  }

  void (*kernel_)(const Task) = nullptr;
  Task task_{};
  ClusterLaunch shape_{};
  double longest_ = 0.0; // length of a point
  OneLaunch launch_;
  PaddedRows rows_;
  PinnedBuffer<float> start_; // [k, d]
  DeviceBuffer<long long> d_words_;
};

const Registration
    registration({.name = "kmeans_cuda_cells_mma",
                  .idea = "split float16 products, sums in integer cells, one launch",
                  .source = "kmeans_cuda_cells and kmeans_cuda_split",
                  .device = Device::gpu,
                  .multiplier = Multiplier::tensor_f16,
                  .max_d = kMaxFeatures,
                  .max_k = kMaxClusters,
                  .previous = "kmeans_cuda_cells"},
                 f32_only<KmeansCudaCellsMma>());

} // namespace
} // namespace clusterbench

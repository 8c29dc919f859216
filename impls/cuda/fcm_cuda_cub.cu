// Fuzzy c-means, a block per centre value and a block per sample, the objective reduced by CUB.
//
// Idea: a block per (feature, cluster) averages the samples; a block per sample measures its
//   distances, a warp per cluster, and turns them into memberships; CUB adds up the objective.
// Changed since fcm_serial: both halves of a pass run in parallel. The samples are kept a second
//   time, feature by feature, so that a centre's block reads neighbouring addresses: the article's
//   strided walk fetches 32 bytes for every float that it uses.
// Source: article 001, section 4. Corrected: all clusters get a thread, samples that coincide with
//   centres are shared among them, double computes in double, the objective pairs memberships with
//   the centres that they come from, powers are not the approximate __powf.
// Cost per iteration: 2 n k d values of samples and memberships read for the centres (n d + n k
//   from memory, the rest from L2), n (d + k) for the memberships; 5 n k d flops.
// Limits: k distances in shared memory (k <= 58112 floats on sm_90), else refused; 2 n d values of
//   device memory.
#include "impls/contract.hpp"
#include "impls/cuda/support/columns.cuh"
#include "impls/cuda/support/pass_facts.cuh"
#include "impls/cuda/support/phase_timer.hpp"

#include <cub/block/block_reduce.cuh>
#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

#include <algorithm>

namespace clusterbench {
namespace {

using namespace cuda;

constexpr unsigned kThreads = 256;
constexpr std::size_t kRun = 1024; // samples a thread adds up before it adds to its total

// kTwo: the fuzzifier m is 2, whose powers are a square and the number itself.
template <bool kTwo, typename T>
__device__ T to_the_m(T membership, T m) {
  return kTwo ? membership * membership : pow(membership, m);
}

/// (nearest / squared)^(1 / (m - 1)), which cannot overflow; 1 for every centre a sample sits on.
template <bool kTwo, typename T>
__device__ T closeness(T nearest, T squared, T m) {
  const T ratio = squared == nearest ? T{1} : nearest / squared;
  return kTwo ? ratio : pow(ratio, 1 / (m - 1));
}

/// Combines the values of a warp's 32 threads; all of them get the result.
template <typename T, typename Combine>
__device__ T over_warp(T value, Combine combine) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

/// A block per entry of centres [k, d]. features: [d, n], memberships: [k, n]
template <bool kTwo, typename T>
__global__ void update_centres(const T* __restrict__ features, const T* __restrict__ memberships,
                               std::size_t n, std::size_t d, std::size_t k, T m, T* centres,
                               WantedFacts wanted, DeviceFacts* to_clear) {
  using BlockReduce = cub::BlockReduce<T, kThreads>;
  __shared__ typename BlockReduce::TempStorage s_sum, s_weight;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *to_clear = {};
  }
  for (std::size_t entry = blockIdx.x; entry < k * d; entry += gridDim.x) {
    const std::size_t j = entry % k; // the k blocks that share a feature run side by side
    const std::size_t f = entry / k;
    T sum = 0;
    T weight = 0;
    for (std::size_t first = 0; first < n; first += kRun * kThreads) {
      // Two levels of sums: millions of terms added one by one would lose a float's last digits.
      const std::size_t end = min(n, first + kRun * kThreads);
      T run_sum = 0;
      T run_weight = 0;
#pragma unroll 4
      for (std::size_t i = first + threadIdx.x; i < end; i += kThreads) {
        const T u_m = to_the_m<kTwo>(memberships[j * n + i], m);
        run_sum += u_m * features[f * n + i];
        run_weight += u_m;
      }
      sum += run_sum;
      weight += run_weight;
    }
    sum = BlockReduce(s_sum).Sum(sum);
    weight = BlockReduce(s_weight).Sum(weight);
    if (threadIdx.x == 0 && weight > 0) { // the centre of a cluster without weight stays
      T& centre = centres[j * d + f];
      const T mean = sum / weight;
      const double shift = static_cast<double>(mean) - static_cast<double>(centre);
      if (wanted.squared_shift != nullptr) {
        atomicAdd(wanted.squared_shift, shift * shift);
      }
      centre = mean;
    }
    __syncthreads(); // the next entry reuses the storage of the sums
  }
}

/// A block per sample. points: [n, d], centres: [k, d], memberships: [k, n]; contributions to the
/// objective: [n, k] or null. Dynamic shared memory: [k].
template <bool kTwo, typename T>
__global__ void update_memberships(const T* __restrict__ points, const T* __restrict__ centres,
                                   std::size_t n, unsigned d, unsigned k, T m, T* memberships,
                                   T* contributions) {
  extern __shared__ __align__(16) unsigned char s_bytes[];
  T* s_squared = reinterpret_cast<T*>(s_bytes);
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const auto add = [](T a, T b) { return a + b; };
  for (std::size_t i = blockIdx.x; i < n; i += gridDim.x) {
    const T* x = points + i * d;
    for (unsigned j = warp; j < k; j += blockDim.x / 32) {
      const T* c = centres + static_cast<std::size_t>(j) * d;
      T squared = 0;
#pragma unroll 4
      for (unsigned f = lane; f < d; f += 32) {
        const T difference = x[f] - c[f];
        squared += difference * difference;
      }
      squared = over_warp(squared, add);
      if (lane == 0) {
        s_squared[j] = squared;
      }
    }
    __syncthreads();     // every distance is there
    if (32 * warp < k) { // a warp without a membership to write need not add up the others'
      T nearest = INFINITY;
      for (unsigned j = lane; j < k; j += 32) {
        nearest = min(nearest, s_squared[j]);
      }
      nearest = over_warp(nearest, [](T a, T b) { return min(a, b); });
      T total = 0;
      for (unsigned j = lane; j < k; j += 32) {
        total += closeness<kTwo>(nearest, s_squared[j], m);
      }
      total = over_warp(total, add);
      for (unsigned j = threadIdx.x; j < k; j += blockDim.x) {
        const T membership = closeness<kTwo>(nearest, s_squared[j], m) / total;
        memberships[j * n + i] = membership;
        if (contributions != nullptr) {
          contributions[i * k + j] = to_the_m<kTwo>(membership, m) * s_squared[j];
        }
      }
    }
    __syncthreads(); // every distance has been used
  }
}

/// The label of a sample is its largest membership. memberships: [k, n], labels: [n]
template <typename T>
__global__ void label_samples(const T* __restrict__ memberships, std::size_t n, std::size_t k,
                              std::int32_t* labels, unsigned* changed_flag) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  bool changed = false;
  if (i < n) {
    std::size_t largest = 0;
    for (std::size_t j = 1; j < k; ++j) { // strictly larger: ties go to the lowest index
      largest = memberships[j * n + i] > memberships[largest * n + i] ? j : largest;
    }
    changed = labels[i] != static_cast<std::int32_t>(largest);
    labels[i] = static_cast<std::int32_t>(largest);
  }
  flag_block(changed, changed_flag);
}

template <typename T>
class FcmCudaCub final : public Variant<T> {
public:
  std::string refuse(const Problem<T>& problem) const override {
    if (!(problem.fuzzifier > 1.0)) {
      return "the fuzzifier must be greater than 1";
    }
    const std::size_t room = shared_memory_limit() / sizeof(T);
    return problem.k <= room
               ? ""
               : "the distances to k = " + std::to_string(problem.k) + " centres exceed the " +
                     std::to_string(room) + " that fit the shared memory of a block";
  }

  void prepare(const Problem<T>& problem) override {
    problem_ = problem;
    const std::size_t n = problem.n;
    const std::size_t d = problem.d;
    const std::size_t k = problem.k;
    stream_ = Stream::create();
    d_points_ = DeviceBuffer<T>(n * d);
    d_points_.upload(problem.points, stream_);
    d_features_ = upload_columns(problem.points, n, d, stream_);
    if (from_memberships()) {
      d_initial_memberships_ = upload_columns(problem.memberships, n, k, stream_);
    }
    d_memberships_ = DeviceBuffer<T>(n * k);
    d_centres_ = DeviceBuffer<T>(k * d);
    d_labels_ = DeviceBuffer<std::int32_t>(n);
    facts_ = FactsBuffer::create();
    const bool two = problem.fuzzifier == 2.0;
    update_centres_ = two ? update_centres<true, T> : update_centres<false, T>;
    update_memberships_ = two ? update_memberships<true, T> : update_memberships<false, T>;
    allow_shared_memory(update_memberships_, k * sizeof(T));
    if (StopTest(problem.stop).wants_loss()) {
      d_contributions_ = DeviceBuffer<T>(n * k);
      std::size_t bytes = 0; // CUB's first call only says how much storage it needs
      reduce_objective(nullptr, bytes, nullptr);
      d_storage_ = DeviceBuffer<unsigned char>(bytes);
    }
  }

  void run(Observer<T>& observer) override {
    StopTest stop(problem_.stop);
    facts_.start(stop, stream_);
    d_labels_.fill_bytes(0xFF, stream_); // -1: every label changes in the first pass
    d_centres_.zero(stream_);
    if (!from_memberships()) {
      d_centres_.upload(problem_.centroids, stream_);
    }
    PhaseTimer<T> timer(observer, stream_);
    std::vector<T> recorded(observer.recording() ? d_centres_.size() : 0);
    PassFacts found;
    do {
      const bool first = stop.passes() == 0;
      const WantedFacts wanted = facts_.wanted();
      if (from_memberships()) {
        const auto& source = first ? d_initial_memberships_ : d_memberships_;
        timer.measure("update", [&] { launch_update_centres(source); });
      }
      timer.measure("assign", [&] { launch_update_memberships(); });
      if (!from_memberships()) {
        timer.measure("update", [&] { launch_update_centres(d_memberships_); });
      }
      if (wanted.loss != nullptr) {
        std::size_t bytes = d_storage_.size();
        timer.measure("check", [&] { reduce_objective(d_storage_.data(), bytes, wanted.loss); });
      }
      if (wanted.labels_changed != nullptr) {
        timer.measure("check", [&] { launch_label_samples(wanted.labels_changed); });
      }
      if (observer.recording()) {
        d_centres_.download(recorded, stream_);
        observer.pass(recorded);
      }
      found = facts_.finish_pass(stream_);
      if (first && from_memberships()) { // there were no centres to move
        found.squared_shift = std::numeric_limits<double>::infinity();
      }
    } while (!stop.after_pass(found));
    stream_.synchronize();
    iterations_ = stop.passes();
  }

  void fetch(Result<T>& result) override {
    launch_label_samples(nullptr);
    d_labels_.download(result.labels, stream_);
    d_centres_.download(result.centroids, stream_);
    std::vector<T> columns(d_memberships_.size());
    d_memberships_.download(columns, stream_);
    for (std::size_t i = 0; i < problem_.n; ++i) {
      for (std::size_t j = 0; j < problem_.k; ++j) {
        result.memberships[i * problem_.k + j] = columns[j * problem_.n + i];
      }
    }
    result.iterations = iterations_;
  }

private:
  bool from_memberships() const { return !problem_.memberships.empty(); }
  T fuzzifier() const { return static_cast<T>(problem_.fuzzifier); }

  void launch_update_centres(const DeviceBuffer<T>& memberships) {
    update_centres_<<<blocks_at_most(d_centres_.size(), 1, kMaxGridX), kThreads, 0, stream_>>>(
        d_features_.data(), memberships.data(), problem_.n, problem_.d, problem_.k, fuzzifier(),
        d_centres_.data(), facts_.wanted(), facts_.to_clear());
    check_launch("update_centres");
  }

  void launch_update_memberships() {
    // As many warps as there are clusters, up to a full block: others would find nothing to do.
    const auto k = static_cast<unsigned>(problem_.k);
    const unsigned threads = 32 * std::min(k, kThreads / 32);
    const unsigned blocks = blocks_at_most(problem_.n, 1, kMaxGridX);
    update_memberships_<<<blocks, threads, k * sizeof(T), stream_>>>(
        d_points_.data(), d_centres_.data(), problem_.n, static_cast<unsigned>(problem_.d), k,
        fuzzifier(), d_memberships_.data(), d_contributions_.data());
    check_launch("update_memberships");
  }

  void launch_label_samples(unsigned* changed_flag) {
    label_samples<<<blocks_for(problem_.n, kThreads), kThreads, 0, stream_>>>(
        d_memberships_.data(), problem_.n, problem_.k, d_labels_.data(), changed_flag);
    check_launch("label_samples");
  }

  /// Sums the contributions in double. Without storage it only sets `bytes` to what it needs.
  void reduce_objective(void* storage, std::size_t& bytes, double* objective) {
    check(cub::DeviceReduce::Reduce(storage, bytes, d_contributions_.data(), objective,
                                    d_contributions_.size(), ::cuda::std::plus<>{}, 0.0, stream_),
          "cub::DeviceReduce::Reduce");
  }

  Problem<T> problem_;
  decltype(&update_centres<true, T>) update_centres_ = nullptr;
  decltype(&update_memberships<true, T>) update_memberships_ = nullptr;
  Stream stream_;
  DeviceBuffer<T> d_points_;              // [n, d]
  DeviceBuffer<T> d_features_;            // [d, n]
  DeviceBuffer<T> d_initial_memberships_; // [k, n], empty if the run starts from centres
  DeviceBuffer<T> d_memberships_;         // [k, n]
  DeviceBuffer<T> d_centres_;             // [k, d]
  DeviceBuffer<T> d_contributions_;       // [n, k], empty unless the objective is wanted
  DeviceBuffer<std::int32_t> d_labels_;   // [n]
  DeviceBuffer<unsigned char> d_storage_; // CUB's
  FactsBuffer facts_;
  std::size_t iterations_ = 0;
};

const Registration registration({.name = "fcm_cuda_cub",
                                 .idea = "a block per sample and per centre value; CUB reduction",
                                 .source = "article 001, section 4",
                                 .family = Family::fcm,
                                 .device = Device::gpu,
                                 .previous = "fcm_serial"},
                                both_precisions<FcmCudaCub>());

} // namespace
} // namespace clusterbench

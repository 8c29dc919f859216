// GPU variants whose kernels misbehave in cells of more than 1500 points, so that tests can see
// what a user sees then. Until the fault strikes they are an atomic k-means.
#include "impls/contract.hpp"
#include "impls/cuda/common/runtime.hpp"
#include "tests/faulty/own_name.hpp"

#include <cuda_runtime.h>

#include <map>
#include <string>
#include <string_view>

namespace clusterbench {
namespace {

constexpr std::size_t kBeyondQualification = 1500;

enum class Fault {
  none,
  asks_for_too_much, ///< one allocation beyond any device
  writes_to_nothing, ///< an illegal address: no later call of the process works
  traps,             ///< the same by an instruction
  never_ends,        ///< a kernel that loops
  launches_nothing   ///< a launch that is refused, and a variant that does not look
};

__global__ void write_to_nothing() {
  *reinterpret_cast<volatile int*>(8) = 1;
}
__global__ void trap() {
  __trap();
}
__global__ void never_end(volatile int* word) {
  while (*word == 0) {
  }
}
__global__ void nothing() {}

__global__ void assign(const float* points, const float* centroids, int* labels, float* sums,
                       unsigned* counts, std::size_t n, std::size_t d, std::size_t k) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  float least = INFINITY;
  std::size_t nearest = 0;
  for (std::size_t j = 0; j < k; ++j) {
    float sum = 0.0f;
    for (std::size_t f = 0; f < d; ++f) {
      const float difference = points[i * d + f] - centroids[j * d + f];
      sum += difference * difference;
    }
    if (sum < least) {
      least = sum;
      nearest = j;
    }
  }
  labels[i] = static_cast<int>(nearest);
  for (std::size_t f = 0; f < d; ++f) {
    atomicAdd(&sums[nearest * d + f], points[i * d + f]);
  }
  atomicAdd(&counts[nearest], 1u);
}

__global__ void take_means(const float* sums, const unsigned* counts, const float* before,
                           float* means, std::size_t d, std::size_t k) {
  const std::size_t at = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < k * d) {
    const unsigned count = counts[at / d];
    means[at] = count == 0 ? before[at] : sums[at] / static_cast<float>(count);
  }
}

class Faulty final : public Variant<float> {
public:
  explicit Faulty(Fault fault) : fault_(fault) {}

  std::string refuse(const Shape& shape) const override {
    return shape.stop.kind == StopRule::Kind::iterations ? "" : "it counts iterations only";
  }
  void prepare(const Shape& shape, const Points<float>& points) override {
    shape_ = shape;
    points_ = points;
    if (fault_ == Fault::asks_for_too_much && strikes()) {
      void* memory = nullptr;
      cuda::check(cudaMalloc(&memory, std::size_t{1} << 46), "cudaMalloc");
    }
    sums_ = cuda::DeviceBuffer<float>(shape.k * shape.d);
    means_ = cuda::DeviceBuffer<float>(shape.k * shape.d);
    counts_ = cuda::DeviceBuffer<unsigned>(shape.k);
  }
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    if (strikes()) {
      strike();
      if (fault_ == Fault::launches_nothing) {
        answer.iterations = shape_.stop.max_iterations;
        return;
      }
    }
    const std::size_t size = shape_.k * shape_.d;
    copy(means_.data(), start.centroids.data(), size);
    StopTest stop(shape_.stop);
    do {
      copy(answer.entering.data(), means_.data(), size);
      cuda::check(cudaMemsetAsync(sums_.data(), 0, size * sizeof(float)), "cudaMemsetAsync");
      cuda::check(cudaMemsetAsync(counts_.data(), 0, shape_.k * sizeof(unsigned)),
                  "cudaMemsetAsync");
      assign<<<cuda::blocks_for(shape_.n, 128), 128>>>(
          points_.rows.data(), means_.data(), answer.labels.data(), sums_.data(), counts_.data(),
          shape_.n, shape_.d, shape_.k);
      take_means<<<cuda::blocks_for(size, 128), 128>>>(
          sums_.data(), counts_.data(), answer.entering.data(), means_.data(), shape_.d, shape_.k);
      cuda::check_launch("take_means");
      observer.pass(std::span<const float>(means_.data(), size));
    } while (!stop.after_pass({}));
    copy(answer.centroids.data(), means_.data(), size);
    answer.iterations = stop.passes();
  }

private:
  bool strikes() const { return shape_.n > kBeyondQualification; }
  static void copy(float* target, const float* source, std::size_t size) {
    cuda::check(cudaMemcpyAsync(target, source, size * sizeof(float), cudaMemcpyDeviceToDevice),
                "cudaMemcpyAsync");
  }
  void strike() {
    switch (fault_) {
    case Fault::writes_to_nothing:
      write_to_nothing<<<1, 1>>>();
      break;
    case Fault::traps:
      trap<<<1, 1>>>();
      break;
    case Fault::never_ends:
      cuda::check(cudaMemset(counts_.data(), 0, sizeof(unsigned)), "cudaMemset");
      never_end<<<1, 1>>>(reinterpret_cast<int*>(counts_.data()));
      break;
    case Fault::launches_nothing:
      nothing<<<1, 100000>>>();
      break;
    case Fault::none:
    case Fault::asks_for_too_much:
      break;
    }
  }

  Fault fault_;
  Shape shape_;
  Points<float> points_;
  cuda::DeviceBuffer<float> sums_, means_;
  cuda::DeviceBuffer<unsigned> counts_;
};

const std::map<std::string, Fault> kFaults = {{"none", Fault::none},
                                              {"asks_for_too_much", Fault::asks_for_too_much},
                                              {"writes_to_nothing", Fault::writes_to_nothing},
                                              {"traps", Fault::traps},
                                              {"never_ends", Fault::never_ends},
                                              {"launches_nothing", Fault::launches_nothing}};

constexpr std::string_view kPrefix = "kmeans_cuda_faulty_";

const bool kRegistered = [] {
  const Fault fault = kFaults.at(own_name().substr(kPrefix.size()));
  registered_variants().push_back({{.name = own_name(),
                                    .idea = "a fault of a kernel",
                                    .source = "tests",
                                    .device = Device::gpu,
                                    .deterministic = false,
                                    .previous = ""},
                                   {[=] { return std::make_unique<Faulty>(fault); }, {}},
                                   __FILE__});
  return true;
}();

} // namespace
} // namespace clusterbench

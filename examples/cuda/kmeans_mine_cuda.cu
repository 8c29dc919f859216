// K-means on a GPU, as a project outside clusterbench would have it: this file and the contract.
//
// A thread takes a point; sums and counts go to global memory by atomics. It is right, and slow
// where few clusters make the atomics collide.
#include <clusterbench/contract.hpp>

#include <cuda_runtime.h>

namespace {

using namespace clusterbench;

void check(cudaError_t error) {
  if (error != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorName(error));
  }
}

__global__ void assign(const float* points, const float* centroids, int* labels, double* sums,
                       unsigned long long* counts, std::size_t n, std::size_t d, std::size_t k) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) {
    return;
  }
  std::size_t best = 0;
  float least = INFINITY;
  for (std::size_t j = 0; j < k; ++j) { // ties go to the lowest index
    float squared = 0.0f;
    for (std::size_t f = 0; f < d; ++f) {
      const float difference = points[i * d + f] - centroids[j * d + f];
      squared += difference * difference;
    }
    if (squared < least) {
      least = squared;
      best = j;
    }
  }
  labels[i] = static_cast<int>(best);
  atomicAdd(&counts[best], 1ULL);
  for (std::size_t f = 0; f < d; ++f) {
    atomicAdd(&sums[best * d + f], static_cast<double>(points[i * d + f]));
  }
}

__global__ void update(float* centroids, const double* sums, const unsigned long long* counts,
                       std::size_t d, std::size_t k) {
  const std::size_t e = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e < k * d && counts[e / d] > 0) { // an empty cluster keeps its centroid
    centroids[e] = static_cast<float>(sums[e] / static_cast<double>(counts[e / d]));
  }
}

template <typename T>
class DeviceArray {
public:
  explicit DeviceArray(std::size_t size) : bytes_(size * sizeof(T)) {
    check(cudaMalloc(&data_, bytes_));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }
  void clear() { check(cudaMemsetAsync(data_, 0, bytes_)); }

private:
  T* data_ = nullptr;
  std::size_t bytes_;
};

class KmeansMineCuda final : public Variant<float> {
public:
  std::string refuse(const Shape& shape) const override {
    return shape.stop.kind == StopRule::Kind::iterations ? "" : "a fixed number of passes only";
  }

  void prepare(const Shape& shape, const Points<float>& points) override {
    shape_ = shape;
    points_ = points.rows;
    sums_ = std::make_unique<DeviceArray<double>>(shape.k * shape.d);
    counts_ = std::make_unique<DeviceArray<unsigned long long>>(shape.k);
  }

  // All spans lie in the device's memory.
  void run(const Start<float>& start, Answer<float>& answer, Observer<float>& observer) override {
    constexpr unsigned kThreads = 256;
    const std::size_t n = shape_.n, d = shape_.d, k = shape_.k;
    const auto blocks = [](std::size_t work) {
      return static_cast<unsigned>((work + kThreads - 1) / kThreads);
    };
    copy(answer.centroids.data(), start.centroids.data());
    for (std::size_t pass = 0; pass < shape_.stop.max_iterations; ++pass) {
      copy(answer.entering.data(), answer.centroids.data());
      sums_->clear();
      counts_->clear();
      {
        const Phase<float> phase(observer, "assign and sum");
        assign<<<blocks(n), kThreads>>>(points_.data(), answer.centroids.data(),
                                        answer.labels.data(), sums_->data(), counts_->data(), n, d,
                                        k);
      }
      {
        const Phase<float> phase(observer, "update");
        update<<<blocks(k * d), kThreads>>>(answer.centroids.data(), sums_->data(), counts_->data(),
                                            d, k);
      }
      check(cudaGetLastError());
      observer.pass(answer.centroids);
    }
    answer.iterations = shape_.stop.max_iterations;
  }

private:
  void copy(float* to, const float* from) const {
    check(cudaMemcpyAsync(to, from, shape_.k * shape_.d * sizeof(float), cudaMemcpyDeviceToDevice));
  }

  Shape shape_;
  std::span<const float> points_;
  std::unique_ptr<DeviceArray<double>> sums_;
  std::unique_ptr<DeviceArray<unsigned long long>> counts_;
};

const Registration kRegistration({.name = "kmeans_mine_cuda",
                                  .idea = "a thread for each point, sums by atomics",
                                  .source = "Lloyd 1982",
                                  .device = Device::gpu,
                                  .deterministic = false},
                                 f32_only<KmeansMineCuda>());

} // namespace

#include "harness/machine/cuda/compare_kernel.cuh"
#include "harness/machine/cuda/cuda_start.hpp"
#include "harness/machine/cuda/probe_gpu.hpp"

#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace clusterbench {
namespace {

// ---- errors and ownership

[[noreturn]] void fail(const std::string& what, const std::source_location& where) {
  throw std::runtime_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) +
                           ": " + what);
}

void check(cudaError_t error, std::source_location where = std::source_location::current()) {
  if (error != cudaSuccess) {
    fail(std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")", where);
  }
}

void check(cublasStatus_t status, std::source_location where = std::source_location::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    fail(std::string("cuBLAS: ") + cublasGetStatusString(status), where);
  }
}

void expect(bool right, const char* what,
            std::source_location where = std::source_location::current()) {
  if (!right) {
    fail(std::string("the probe did not compute what it timed: ") + what, where);
  }
}

struct Release {
  void operator()(void* d_memory) const { cudaFree(d_memory); }
  void operator()(CUstream_st* stream) const { cudaStreamDestroy(stream); }
  void operator()(CUevent_st* event) const { cudaEventDestroy(event); }
  void operator()(CUgraph_st* graph) const { cudaGraphDestroy(graph); }
  void operator()(CUgraphExec_st* graph) const { cudaGraphExecDestroy(graph); }
  void operator()(cublasContext* handle) const { cublasDestroy(handle); }
};
using Stream = std::unique_ptr<CUstream_st, Release>;
using Event = std::unique_ptr<CUevent_st, Release>;
using Graph = std::unique_ptr<CUgraph_st, Release>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Release>;
using Cublas = std::unique_ptr<cublasContext, Release>;

template <typename T>
class DeviceArray {
public:
  explicit DeviceArray(std::size_t count) {
    void* d_memory = nullptr;
    check(cudaMalloc(&d_memory, count * sizeof(T)));
    memory_.reset(d_memory);
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

private:
  std::unique_ptr<void, Release> memory_;
};

// ---- kernels

constexpr unsigned kBlock = 256;
constexpr int kLoadsInFlight = 4; // per thread, 16 bytes each
constexpr int kAccumulators = 8;  // together with the other warps they hide the latency of an FMA

__device__ std::size_t thread_index() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ std::size_t thread_count() {
  return static_cast<std::size_t>(gridDim.x) * blockDim.x;
}

__device__ void add(float4& sum, const float4& value) {
  sum.x += value.x;
  sum.y += value.y;
  sum.z += value.z;
  sum.w += value.w;
}

__global__ void fill_kernel(float4* d_values, std::size_t count, float value) {
  for (std::size_t i = thread_index(); i < count; i += thread_count()) {
    d_values[i] = make_float4(value, value, value, value);
  }
}

/// Reads [count] vectors `passes` times and leaves one sum per thread in d_sums [threads].
__global__ void read_kernel(const float4* d_values, std::size_t count, int passes, float* d_sums) {
  const std::size_t stride = thread_count();
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  for (int pass = 0; pass < passes; ++pass) {
    // The compiler must not know that this is where the last pass began, or it would read once.
    asm volatile("" : "+l"(d_values));
    std::size_t i = thread_index();
    for (; i + (kLoadsInFlight - 1) * stride < count; i += kLoadsInFlight * stride) {
      float4 values[kLoadsInFlight];
#pragma unroll
      for (int load = 0; load < kLoadsInFlight; ++load) {
        // Past the first-level cache, which would serve a later pass over a small working set.
        values[load] = __ldcg(d_values + i + load * stride);
      }
#pragma unroll
      for (int load = 0; load < kLoadsInFlight; ++load) {
        add(sum, values[load]);
      }
    }
    for (; i < count; i += stride) {
      add(sum, __ldcg(d_values + i));
    }
  }
  d_sums[thread_index()] = sum.x + sum.y + sum.z + sum.w;
}

__global__ void copy_kernel(const float4* d_from, float4* d_to, std::size_t count, int passes) {
  const std::size_t stride = thread_count();
  for (int pass = 0; pass < passes; ++pass) {
    asm volatile("" : "+l"(d_from), "+l"(d_to)); // as above: every pass copies
    std::size_t i = thread_index();
    for (; i + (kLoadsInFlight - 1) * stride < count; i += kLoadsInFlight * stride) {
      float4 values[kLoadsInFlight];
#pragma unroll
      for (int load = 0; load < kLoadsInFlight; ++load) {
        values[load] = __ldcg(d_from + i + load * stride);
      }
#pragma unroll
      for (int load = 0; load < kLoadsInFlight; ++load) {
        __stcg(d_to + i + load * stride, values[load]);
      }
    }
    for (; i < count; i += stride) {
      __stcg(d_to + i, __ldcg(d_from + i));
    }
  }
}

/// Iterates x = x * half + one from different starts; every x ends at exactly 2.
template <typename T>
__global__ void fma_kernel(int iterations, T half, T one, T* d_sums) {
  T x[kAccumulators];
#pragma unroll
  for (int a = 0; a < kAccumulators; ++a) {
    x[a] = static_cast<T>(a + static_cast<int>(threadIdx.x));
  }
#pragma unroll 8
  for (int i = 0; i < iterations; ++i) {
#pragma unroll
    for (int a = 0; a < kAccumulators; ++a) {
      x[a] = fma(x[a], half, one);
    }
  }
  T sum = 0;
#pragma unroll
  for (int a = 0; a < kAccumulators; ++a) {
    sum += x[a];
  }
  d_sums[thread_index()] = sum;
}

/// Pseudo-random values in [-1, 1): matrices of zeros or ones toggle few wires, draw less power and
/// would let the clock rise above what real data allow.
__host__ __device__ float noise(std::size_t index, unsigned seed) {
  auto bits = static_cast<unsigned>(index) * 2654435761U + seed * 40503U;
  bits ^= bits >> 16;
  bits *= 0x85ebca6bU;
  bits ^= bits >> 13;
  bits *= 0xc2b2ae35U;
  bits ^= bits >> 16;
  return static_cast<float>(bits >> 8) * 0x1p-23F - 1.0F;
}

template <typename T>
__global__ void noise_kernel(T* d_values, std::size_t count, unsigned seed) {
  for (std::size_t i = thread_index(); i < count; i += thread_count()) {
    d_values[i] = static_cast<T>(noise(i, seed));
  }
}

__global__ void empty_kernel() {}

__global__ void barrier_kernel(int barriers) {
  const auto grid = cooperative_groups::this_grid();
  for (int i = 0; i < barriers; ++i) {
    grid.sync();
  }
}

/// Every thread adds 1 `additions` times to d_counters[thread index % addresses].
__global__ void atomics_kernel(float* d_counters, std::size_t addresses, int additions) {
  float* const d_counter = d_counters + thread_index() % addresses;
  for (int i = 0; i < additions; ++i) {
    atomicAdd(d_counter, 1.0F);
  }
}

// ---- the bench: a stream and a pair of events on one device

class Bench {
public:
  Bench(const cudaDeviceProp& device, bool quick)
      : multiprocessors_(static_cast<unsigned>(device.multiProcessorCount)),
        repetitions_(quick ? 5 : 20) {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    stream_.reset(stream);
    for (Event* event : {&start_, &stop_}) {
      cudaEvent_t created = nullptr;
      check(cudaEventCreate(&created));
      event->reset(created);
    }
  }

  cudaStream_t stream() const { return stream_.get(); }
  unsigned multiprocessors() const { return multiprocessors_; }

  /// As many blocks of kBlock threads as the device can hold at once: one full wave, no tail.
  template <typename Kernel>
  unsigned full_wave(Kernel* kernel) const {
    int per_multiprocessor = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel,
                                                        static_cast<int>(kBlock), 0));
    return multiprocessors_ * static_cast<unsigned>(per_multiprocessor);
  }

  void synchronize() const { check(cudaStreamSynchronize(stream())); }

  /// The shortest time on the device of work() [s], which queues on the stream; prepare() runs
  /// before each repetition, untimed.
  template <typename Work, typename Prepare>
  double shortest(Work work, Prepare prepare) const {
    double best = std::numeric_limits<double>::infinity();
    for (int repetition = 0; repetition <= repetitions_; ++repetition) {
      prepare();
      check(cudaEventRecord(start_.get(), stream()));
      work();
      check(cudaGetLastError());
      check(cudaEventRecord(stop_.get(), stream()));
      check(cudaEventSynchronize(stop_.get()));
      float milliseconds = 0.0F;
      check(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
      if (repetition > 0) { // the first one loads code and warms caches
        best = std::min(best, milliseconds * 1e-3);
      }
    }
    return best;
  }

  template <typename Work>
  double shortest(Work work) const {
    return shortest(work, [] {});
  }

  /// Copies back and adds up; waits for the stream.
  template <typename T>
  double sum(const DeviceArray<T>& values, std::size_t count) const {
    std::vector<T> host(count);
    check(cudaMemcpyAsync(host.data(), values.get(), count * sizeof(T), cudaMemcpyDeviceToHost,
                          stream()));
    synchronize();
    double total = 0.0;
    for (const T value : host) {
      total += static_cast<double>(value);
    }
    return total;
  }

private:
  unsigned multiprocessors_;
  int repetitions_;
  Stream stream_;
  Event start_;
  Event stop_;
};

std::size_t threads_of(unsigned blocks) {
  return static_cast<std::size_t>(blocks) * kBlock;
}

// ---- bandwidth

/// Passes that make a launch long against its own latency (about 1 GB of traffic).
int passes_over(std::size_t bytes) {
  return static_cast<int>(std::max<std::size_t>(1, (std::size_t{1} << 30) / bytes));
}

double read_bandwidth(const Bench& bench, const DeviceArray<float4>& values, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float4);
  const int passes = passes_over(bytes);
  const unsigned blocks = bench.full_wave(read_kernel);
  const DeviceArray<float> sums(threads_of(blocks));
  const double seconds = bench.shortest([&] {
    read_kernel<<<blocks, kBlock, 0, bench.stream()>>>(values.get(), count, passes, sums.get());
  });
  // Every value is 1, and each thread's sum is below 2^24, where float counts exactly.
  const double values_read = 4.0 * static_cast<double>(count) * passes;
  expect(bench.sum(sums, threads_of(blocks)) == values_read, "reading");
  return static_cast<double>(count * sizeof(float4)) * passes / seconds * 1e-9;
}

double copy_bandwidth(const Bench& bench, const DeviceArray<float4>& values, std::size_t bytes) {
  // One allocation, half of it source and half destination.
  const std::size_t count = bytes / sizeof(float4) / 2;
  float4* const d_to = values.get() + count;
  const int passes = passes_over(bytes);
  const unsigned blocks = bench.full_wave(copy_kernel);
  check(cudaMemsetAsync(d_to, 0, count * sizeof(float4), bench.stream()));
  const double seconds = bench.shortest([&] {
    copy_kernel<<<blocks, kBlock, 0, bench.stream()>>>(values.get(), d_to, count, passes);
  });
  const DeviceArray<float> sums(threads_of(blocks));
  read_kernel<<<blocks, kBlock, 0, bench.stream()>>>(d_to, count, 1, sums.get());
  check(cudaGetLastError());
  expect(bench.sum(sums, threads_of(blocks)) == 4.0 * static_cast<double>(count), "copying");
  return 2.0 * static_cast<double>(count * sizeof(float4)) * passes / seconds * 1e-9;
}

void probe_bandwidth(const Bench& bench, const cudaDeviceProp& device, bool quick,
                     GpuLimits& limits) {
  constexpr std::size_t kMega = 1000 * 1000;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes));
  const std::size_t in_l2 = std::min(36 * kMega, limits.l2_bytes * 7 / 10);
  std::vector<std::size_t> sizes = {in_l2, 128 * kMega, 400 * kMega, 1000 * kMega};
  if (!quick) {
    sizes.push_back(3000 * kMega);
  }
  std::erase_if(sizes, [&](std::size_t bytes) { return bytes > free_bytes / 2; });
  std::ranges::sort(sizes);
  if (sizes.empty() || in_l2 == 0) {
    throw std::runtime_error("the GPU probe needs an L2 cache and more free memory than " +
                             std::to_string(free_bytes) + " bytes on " + device.name);
  }

  const DeviceArray<float4> values(sizes.back() / sizeof(float4));
  fill_kernel<<<bench.full_wave(fill_kernel), kBlock, 0, bench.stream()>>>(
      values.get(), sizes.back() / sizeof(float4), 1.0F);
  check(cudaGetLastError());
  for (const std::size_t bytes : sizes) {
    limits.read_by_size.push_back({bytes, read_bandwidth(bench, values, bytes)});
  }
  limits.read_gbs = limits.read_by_size.back().gbs;
  limits.l2_read_gbs = read_bandwidth(bench, values, in_l2);
  limits.l2_copy_gbs = copy_bandwidth(bench, values, in_l2);
  limits.copy_gbs = copy_bandwidth(bench, values, sizes.back());
}

// ---- arithmetic

template <typename T>
double fma_gflops(const Bench& bench) {
  constexpr int kIterations = 8192;
  const unsigned blocks = bench.full_wave(fma_kernel<T>);
  const DeviceArray<T> sums(threads_of(blocks));
  const double seconds = bench.shortest([&] {
    fma_kernel<T><<<blocks, kBlock, 0, bench.stream()>>>(kIterations, T{0.5}, T{1}, sums.get());
  });
  const double chains = static_cast<double>(threads_of(blocks) * kAccumulators);
  expect(bench.sum(sums, threads_of(blocks)) == 2.0 * chains, "multiplying and adding");
  return 2.0 * chains * kIterations / seconds * 1e-9;
}

template <typename Scores>
double compare_gpairs(const Bench& bench) {
  constexpr int kGroups = 1024;
  const unsigned blocks = bench.full_wave(compare_kernel<Scores>);
  const DeviceArray<int> found(threads_of(blocks));
  const double seconds = bench.shortest([&] {
    compare_kernel<Scores>
        <<<blocks, kBlock, 0, bench.stream()>>>(kGroups, 2.0F, 1.0F, 1.0F, found.get());
  });
  const auto points = static_cast<double>(threads_of(blocks));
  expect(bench.sum(found, threads_of(blocks)) == points * (kGroups - 1), "comparing");
  return points * kGroups * Scores::kGroup / seconds * 1e-9;
}

/// C = A B of square column-major matrices of T, with sums in float.
template <typename T>
double gemm_gflops(const Bench& bench, cublasHandle_t cublas, cudaDataType_t type,
                   cublasComputeType_t compute) {
  constexpr std::size_t kSize = 8192;
  const DeviceArray<T> a(kSize * kSize);
  const DeviceArray<T> b(kSize * kSize);
  const DeviceArray<T> c(kSize * kSize);
  const unsigned blocks = bench.full_wave(noise_kernel<T>);
  noise_kernel<<<blocks, kBlock, 0, bench.stream()>>>(a.get(), kSize * kSize, 1);
  noise_kernel<<<blocks, kBlock, 0, bench.stream()>>>(b.get(), kSize * kSize, 2);
  check(cudaGetLastError());
  const float one = 1.0F;
  const float zero = 0.0F;
  const int size = static_cast<int>(kSize);
  const double seconds = bench.shortest([&] {
    check(cublasGemmEx(cublas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, a.get(), type,
                       size, b.get(), type, size, &zero, c.get(), type, size, compute,
                       CUBLAS_GEMM_DEFAULT));
  });
  for (const auto& [row, column] :
       {std::pair<std::size_t, std::size_t>{0, 0}, {17, 4096}, {8191, 8191}}) {
    T computed{};
    check(cudaMemcpy(&computed, c.get() + column * kSize + row, sizeof(T), cudaMemcpyDeviceToHost));
    double product = 0.0;
    for (std::size_t k = 0; k < kSize; ++k) {
      product += static_cast<double>(noise(k * kSize + row, 1)) * noise(column * kSize + k, 2);
    }
    // Inputs keep 10 bits, so a sum of 8192 products of size 1/3 errs by about 0.05.
    expect(std::abs(static_cast<double>(static_cast<float>(computed)) - product) < 0.5,
           "a matrix product");
  }
  return 2.0 * static_cast<double>(kSize) * kSize * kSize / seconds * 1e-9;
}

void probe_arithmetic(const Bench& bench, const cudaDeviceProp& device, GpuLimits& limits) {
  limits.fma_f32_gflops = fma_gflops<float>(bench);
  limits.fma_f64_gflops = fma_gflops<double>(bench);
  limits.compare_f32_gpairs = compare_gpairs<WholeScores>(bench);
  limits.compare_f64_gpairs = compare_gpairs<DoubleScores>(bench);
  limits.compare_f16_gpairs = compare_gpairs<PackedScores>(bench);
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle));
  const Cublas cublas(handle);
  check(cublasSetStream(handle, bench.stream()));
  if (device.major >= 8) {
    limits.gemm_tf32_gflops =
        gemm_gflops<float>(bench, handle, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
  }
  if (device.major >= 7) {
    limits.gemm_f16_gflops = gemm_gflops<__half>(bench, handle, CUDA_R_16F, CUBLAS_COMPUTE_32F);
  }
}

// ---- latencies

template <typename Work>
double host_seconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void probe_launches(const Bench& bench, GpuLimits& limits) {
  constexpr int kLaunches = 1000;
  const auto launch_all = [&] {
    for (int i = 0; i < kLaunches; ++i) {
      empty_kernel<<<1, 32, 0, bench.stream()>>>();
    }
  };
  limits.launch_us = bench.shortest(launch_all) / kLaunches * 1e6;

  std::vector<double> round_trips;
  for (int i = 0; i < kLaunches; ++i) {
    round_trips.push_back(host_seconds([&] {
      empty_kernel<<<1, 32, 0, bench.stream()>>>();
      bench.synchronize();
    }));
  }
  std::ranges::nth_element(round_trips, round_trips.begin() + kLaunches / 2);
  limits.launch_sync_us = round_trips[kLaunches / 2] * 1e6;

  check(cudaStreamBeginCapture(bench.stream(), cudaStreamCaptureModeThreadLocal));
  launch_all();
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(bench.stream(), &captured));
  const Graph graph(captured);
  cudaGraphExec_t instantiated = nullptr;
  check(cudaGraphInstantiate(&instantiated, graph.get(), 0));
  const GraphExec executable(instantiated);
  const double seconds =
      bench.shortest([&] { check(cudaGraphLaunch(executable.get(), bench.stream())); });
  limits.graph_node_us = seconds / kLaunches * 1e6;
}

void probe_grid_barrier(const Bench& bench, GpuLimits& limits) {
  constexpr int kFew = 10;
  constexpr int kMany = 1010;
  const auto seconds_of = [&](int barriers) {
    void* arguments[] = {&barriers};
    return bench.shortest([&] {
      check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&barrier_kernel),
                                        dim3(bench.multiprocessors()), dim3(kBlock), arguments, 0,
                                        bench.stream()));
    });
  };
  // The difference leaves the launch out.
  limits.grid_barrier_us = (seconds_of(kMany) - seconds_of(kFew)) / (kMany - kFew) * 1e6;
}

/// With one address per thread if `addresses` is 0.
double atomics_gops(const Bench& bench, std::size_t addresses) {
  const unsigned blocks = bench.full_wave(atomics_kernel);
  const std::size_t threads = threads_of(blocks);
  if (addresses == 0) {
    addresses = threads;
  }
  // One counter may take all additions, and a float counts exactly up to 2^24 only.
  const auto per_thread =
      static_cast<int>(std::min<std::size_t>(32, (std::size_t{1} << 24) / threads));
  const double additions = static_cast<double>(threads) * per_thread;
  const DeviceArray<float> counters(addresses);
  const double seconds = bench.shortest(
      [&] {
        atomics_kernel<<<blocks, kBlock, 0, bench.stream()>>>(counters.get(), addresses,
                                                              per_thread);
      },
      [&] {
        check(cudaMemsetAsync(counters.get(), 0, addresses * sizeof(float), bench.stream()));
      });
  expect(bench.sum(counters, addresses) == additions, "atomic additions");
  return additions / seconds * 1e-9;
}

} // namespace

GpuLimits probe_gpu(int device, bool quick) {
  int devices = 0;
  if (const std::string reason = cuda_does_not_start(devices); !reason.empty()) {
    throw std::runtime_error(reason);
  }
  check(cudaSetDevice(device));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  GpuLimits limits;
  limits.name = properties.name;
  limits.compute_capability =
      std::to_string(properties.major) + "." + std::to_string(properties.minor);
  limits.multiprocessors = properties.multiProcessorCount;
  limits.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);

  const Bench bench(properties, quick);
  probe_arithmetic(bench, properties, limits); // first: it also brings the clocks up
  probe_bandwidth(bench, properties, quick, limits);
  probe_launches(bench, limits);
  probe_grid_barrier(bench, limits);
  limits.atomics_one_gops = atomics_gops(bench, 1);
  limits.atomics_32_gops = atomics_gops(bench, 32);
  limits.atomics_many_gops = atomics_gops(bench, 0);
  return limits;
}

void to_json(nlohmann::json& json, const GpuLimits& limits) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  json = {{"name", limits.name},
          {"compute_capability", limits.compute_capability},
          {"multiprocessors", limits.multiprocessors},
          {"l2_bytes", limits.l2_bytes},
          {"read_gbs", limits.read_gbs},
          {"l2_read_gbs", limits.l2_read_gbs},
          {"copy_gbs", limits.copy_gbs},
          {"l2_copy_gbs", limits.l2_copy_gbs},
          {"fma_f32_gflops", limits.fma_f32_gflops},
          {"fma_f64_gflops", limits.fma_f64_gflops},
          {"compare_f32_gpairs", limits.compare_f32_gpairs},
          {"compare_f64_gpairs", limits.compare_f64_gpairs},
          {"compare_f16_gpairs", limits.compare_f16_gpairs},
          {"gemm_tf32_gflops", or_null(limits.gemm_tf32_gflops)},
          {"gemm_f16_gflops", or_null(limits.gemm_f16_gflops)},
          {"launch_us", limits.launch_us},
          {"launch_sync_us", limits.launch_sync_us},
          {"graph_node_us", limits.graph_node_us},
          {"grid_barrier_us", limits.grid_barrier_us},
          {"atomics_one_gops", limits.atomics_one_gops},
          {"atomics_32_gops", limits.atomics_32_gops},
          {"atomics_many_gops", limits.atomics_many_gops},
          {"read_by_size", nlohmann::json::array()}};
  for (const ReadLimit& limit : limits.read_by_size) {
    json["read_by_size"].push_back({{"bytes", limit.bytes}, {"gbs", limit.gbs}});
  }
}

void from_json(const nlohmann::json& json, GpuLimits& limits) {
  const auto get_optional = [&](const char* key, std::optional<double>& value) {
    const nlohmann::json& found = json.at(key);
    value = found.is_null() ? std::nullopt : std::optional(found.get<double>());
  };
  json.at("name").get_to(limits.name);
  json.at("compute_capability").get_to(limits.compute_capability);
  json.at("multiprocessors").get_to(limits.multiprocessors);
  json.at("l2_bytes").get_to(limits.l2_bytes);
  json.at("read_gbs").get_to(limits.read_gbs);
  json.at("l2_read_gbs").get_to(limits.l2_read_gbs);
  json.at("copy_gbs").get_to(limits.copy_gbs);
  json.at("l2_copy_gbs").get_to(limits.l2_copy_gbs);
  json.at("fma_f32_gflops").get_to(limits.fma_f32_gflops);
  json.at("fma_f64_gflops").get_to(limits.fma_f64_gflops);
  json.at("compare_f32_gpairs").get_to(limits.compare_f32_gpairs);
  json.at("compare_f64_gpairs").get_to(limits.compare_f64_gpairs);
  json.at("compare_f16_gpairs").get_to(limits.compare_f16_gpairs);
  get_optional("gemm_tf32_gflops", limits.gemm_tf32_gflops);
  get_optional("gemm_f16_gflops", limits.gemm_f16_gflops);
  json.at("launch_us").get_to(limits.launch_us);
  json.at("launch_sync_us").get_to(limits.launch_sync_us);
  json.at("graph_node_us").get_to(limits.graph_node_us);
  json.at("grid_barrier_us").get_to(limits.grid_barrier_us);
  json.at("atomics_one_gops").get_to(limits.atomics_one_gops);
  json.at("atomics_32_gops").get_to(limits.atomics_32_gops);
  json.at("atomics_many_gops").get_to(limits.atomics_many_gops);
  limits.read_by_size.clear();
  for (const nlohmann::json& entry : json.at("read_by_size")) {
    limits.read_by_size.push_back(
        {entry.at("bytes").get<std::size_t>(), entry.at("gbs").get<double>()});
  }
}

} // namespace clusterbench

/// The limits of device 0 as JSON, or {"error": message}. Valid until the next call.
extern "C" __attribute__((visibility("default"))) const char* clusterbench_probe_gpu(bool quick) {
  static std::string text;
  try {
    text = nlohmann::json(clusterbench::probe_gpu(0, quick)).dump();
  } catch (const std::exception& error) {
    text = nlohmann::json{{"error", error.what()}}.dump();
  }
  return text.c_str();
}

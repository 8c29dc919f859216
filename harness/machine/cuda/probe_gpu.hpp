// What one GPU can do at best: the limits that a variant's rate is held against. Plain C++; only
// the measuring itself needs the CUDA compiler.
#pragma once

#include "harness/machine/probe.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace clusterbench {

/// Every rate is the best and every latency the lowest of several repetitions. GB/s are 10^9 bytes
/// and a fused multiply-add is two operations.
struct GpuLimits {
  std::string name;
  std::string compute_capability; ///< such as "9.0"
  int multiprocessors = 0;
  std::size_t l2_bytes = 0;

  std::vector<ReadLimit> read_by_size; ///< by growing working set, from L2 to device memory
  double read_gbs = 0.0;               ///< the last of read_by_size
  double l2_read_gbs = 0.0;            ///< of the working set that stays in L2
  double copy_gbs = 0.0;               ///< read and written bytes, in device memory
  double l2_copy_gbs = 0.0;            ///< read and written bytes, in L2

  double fma_f32_gflops = 0.0;
  double fma_f64_gflops = 0.0;
  double compare_f32_gpairs = 0.0; ///< 10^9 scores/s of which the least is found, with its place
  double compare_f64_gpairs = 0.0; ///< likewise
  double compare_f16_gpairs = 0.0; ///< likewise, of floats that are rounded to float16 in pairs
  std::optional<double> gemm_tf32_gflops; ///< cuBLAS, 8192^3; empty before compute capability 8.0
  std::optional<double> gemm_f16_gflops;  ///< likewise, f16 in and out, sums in f32; from 7.0

  double launch_us = 0.0;       ///< per empty kernel, launched one after the other
  double launch_sync_us = 0.0;  ///< one empty kernel, launched and waited for (median)
  double graph_node_us = 0.0;   ///< per empty kernel in a chain of graph nodes
  double grid_barrier_us = 0.0; ///< cooperative grid, one block per multiprocessor

  double atomics_one_gops = 0.0;  ///< 10^9 float atomicAdd/s, all threads on one address
  double atomics_32_gops = 0.0;   ///< on 32 neighbouring addresses, one per lane
  double atomics_many_gops = 0.0; ///< every thread on an address of its own
};

void to_json(nlohmann::json& json, const GpuLimits& limits);
/// Throws nlohmann::json::exception if a key is missing or of a wrong type.
void from_json(const nlohmann::json& json, GpuLimits& limits);

/// Measures a GPU; creates a device context, so it is for a process that ends soon after. `quick`
/// repeats less and leaves the largest working sets out. Throws std::runtime_error with file and
/// line on a CUDA or cuBLAS error, and if a measurement's own arithmetic check fails.
GpuLimits probe_gpu(int device, bool quick);

} // namespace clusterbench

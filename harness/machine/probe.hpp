// What this machine's processor can do at best: the limits that a variant's rate is held against.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <vector>

namespace clusterbench {

/// Read bandwidth of a working set that is split evenly over the threads.
struct ReadLimit {
  std::size_t bytes = 0; ///< of all threads together
  double gbs = 0.0;      ///< GB/s (10^9 bytes), all threads together
};

/// The limits of a number of threads. Each is the best of several repetitions.
struct CpuLimits {
  int threads = 0;
  bool pinned = false; ///< every thread could be kept on a CPU of its own
  /// Processor time over elapsed time of the threads in the worst of the best repetitions: well
  /// below 1, the CPUs were shared with other programs and the figures are too low.
  double cpu_share = 0.0;
  int vector_bits = 0;         ///< width of the vector registers that were used
  double read_gbs = 0.0;       ///< from memory: the last of read_by_size
  double fma_f32_gflops = 0.0; ///< a fused multiply-add counts as two operations
  double fma_f64_gflops = 0.0; ///< likewise
  /// 10^9 scores/s of which the least is found, with its place.
  double compare_f32_gpairs = 0.0;
  double compare_f64_gpairs = 0.0;     ///< likewise
  std::vector<ReadLimit> read_by_size; ///< by growing size, from first-level cache to memory
};

void to_json(nlohmann::json& json, const CpuLimits& limits);
/// Throws nlohmann::json::exception if a key is missing or of a wrong type.
void from_json(const nlohmann::json& json, CpuLimits& limits);

/// Bytes that are read from memory and not from a cache: twice the last-level caches, at least
/// 256 MiB, at most a quarter of the memory that is available now.
std::size_t memory_working_set();

/// Measures with `threads` threads (wrapped around the CPUs that this process may use). Working
/// sets double from 16 KiB a thread up to `largest_bytes`. Throws std::invalid_argument unless
/// threads >= 1, seconds_per_measurement > 0 and the largest set is at least the smallest;
/// std::runtime_error if memory is short or a measurement's own arithmetic check fails.
CpuLimits probe_cpu(int threads, double seconds_per_measurement,
                    std::size_t largest_bytes = memory_working_set());

/// probe_cpu for 1, 2, 4, ... and finally `max_threads` threads.
std::vector<CpuLimits> probe_cpu_scaling(int max_threads, double seconds_per_measurement,
                                         std::size_t largest_bytes = memory_working_set());

/// The read bandwidth that bounds a loop over `bytes` of data: interpolated in log(bytes) between
/// the measured sizes, and that of the nearest size outside them [GB/s]. Throws
/// std::invalid_argument if nothing was measured.
double read_limit_gbs(const CpuLimits& limits, std::size_t bytes);

} // namespace clusterbench

#include "harness/machine/probe.hpp"

#include "harness/machine/processor_clock.hpp"
#include "harness/machine/provenance.hpp"
#include "harness/machine/usable_processors.hpp"
#include "harness/system/available_memory.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

namespace clusterbench {
namespace {

using Clock = std::chrono::steady_clock;

// Vectors as wide as -march allows, and as many accumulators as hide the latency of an addition on
// every port without running out of registers (32 with AVX-512 and on Arm, else 16).
#if defined(__AVX512F__)
constexpr std::size_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr std::size_t kVectorBytes = 32;
#else
constexpr std::size_t kVectorBytes = 16;
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr std::size_t kAccumulators = 16;
#else
constexpr std::size_t kAccumulators = 12;
#endif

constexpr std::size_t kSmallestBytesPerThread = 16 * 1024;
constexpr int kRepetitions = 5;

typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef double Doubles __attribute__((vector_size(kVectorBytes)));

template <typename Vector>
constexpr std::size_t lanes() {
  return kVectorBytes / sizeof(Vector{}[0]);
}

template <typename Vectors>
double sum_of_lanes(const Vectors& vectors) {
  using Vector = typename Vectors::value_type;
  double total = 0.0;
  for (const Vector& each : vectors) {
    for (std::size_t lane = 0; lane < lanes<Vector>(); ++lane) {
      total += static_cast<double>(each[lane]);
    }
  }
  return total;
}

// ---- working sets

/// Zeroed pages of one thread, in huge pages where the system grants them, so that the figure is
/// the memory's and not that of address translation.
class Pages {
public:
  explicit Pages(std::size_t bytes)
      : bytes_(bytes),
        address_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (address_ == MAP_FAILED) {
      throw std::runtime_error(fmt::format("the probe cannot get {} bytes of memory", bytes));
    }
    madvise(address_, bytes_, MADV_HUGEPAGE); // advice: without it the probe is right, too
  }
  ~Pages() { munmap(address_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::span<Doubles> values() {
    return {static_cast<Doubles*>(address_), bytes_ / sizeof(Doubles)};
  }

private:
  std::size_t bytes_;
  void* address_;
};

// ---- threads

bool pin_to(const std::vector<int>& cpus, std::size_t thread) {
  if (cpus.empty()) {
    return false;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[thread % cpus.size()], &set);
  return pthread_setaffinity_np(pthread_self(), sizeof(set), &set) == 0;
}

struct Together {
  double seconds = 0.0;   ///< from the first thread's start to the last one's end
  double cpu_share = 0.0; ///< processor time per thread over those seconds, as far as can be told
  bool pinned = false;
};

/// Runs work(thread) on pinned threads that start together. Throws std::system_error, and works not
/// at all, if there cannot be so many.
Together run_together(std::size_t threads, const std::function<void(std::size_t)>& work) {
  struct Lap {
    Clock::time_point start;
    Clock::time_point end;
    double cpu_seconds = 0.0;
    bool pinned = false;
  };
  const std::vector<int>& cpus = usable_processors();
  std::vector<Lap> laps(threads);
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  std::atomic<bool> are_all_there = true;
  {
    std::vector<std::jthread> workers;
    workers.reserve(threads);
    const auto start_thread = [&](std::size_t thread) {
      workers.emplace_back([&, thread] {
        Lap& lap = laps[thread];
        lap.pinned = pin_to(cpus, thread);
        start.arrive_and_wait();
        if (!are_all_there) {
          return;
        }
        const double cpu_before = processor_seconds_of_thread();
        lap.start = Clock::now();
        work(thread);
        lap.end = Clock::now();
        lap.cpu_seconds = processor_seconds_of_thread() - cpu_before;
      });
    };
    try {
      for (std::size_t thread = 0; thread < threads; ++thread) {
        start_thread(thread);
      }
    } catch (const std::system_error&) { // those that wait for the others must not wait for ever
      are_all_there = false;
      for (std::size_t missing = threads - workers.size(); missing > 0; --missing) {
        start.arrive_and_drop();
      }
      throw;
    }
  }
  const auto first = std::ranges::min_element(laps, {}, &Lap::start)->start;
  const auto last = std::ranges::max_element(laps, {}, &Lap::end)->end;
  const double seconds = std::chrono::duration<double>(last - first).count();
  double cpu_seconds = 0.0;
  for (const Lap& lap : laps) {
    cpu_seconds += lap.cpu_seconds + processor_clock_step(); // so much may have been missed
  }
  return {seconds, std::min(cpu_seconds / seconds / static_cast<double>(threads), 1.0),
          threads <= cpus.size() && std::ranges::all_of(laps, &Lap::pinned)};
}

struct Rate {
  double per_second = 0.0;
  double cpu_share = 0.0; ///< of the repetition that gave it
};

/// The highest rate at which the threads do work(thread, passes). The number of passes grows until
/// a repetition lasts its share of `seconds`.
Rate best_rate(std::size_t threads, double units_per_pass, double seconds,
               const std::function<void(std::size_t, std::size_t)>& work) {
  const double share = seconds / kRepetitions;
  Rate best;
  std::size_t passes = 1;
  for (int repetition = 0; repetition < kRepetitions;) {
    const Together lap = run_together(threads, [&](std::size_t thread) { work(thread, passes); });
    if (lap.seconds < share) {
      const double growth = std::clamp(1.2 * share / std::max(lap.seconds, 1e-9), 2.0, 100.0);
      passes = static_cast<std::size_t>(std::ceil(static_cast<double>(passes) * growth));
      continue;
    }
    const double rate = units_per_pass * static_cast<double>(passes) / lap.seconds;
    if (rate > best.per_second) {
      best = {rate, lap.cpu_share};
    }
    ++repetition;
  }
  return best;
}

// ---- reading

/// Sums the vectors `passes` times; their number is a multiple of kAccumulators. A sum rather than
/// bare loads, since a read that nothing is done with is no limit that a program could reach.
double sum_values(std::span<const Doubles> vectors, std::size_t passes) {
  std::array<Doubles, kAccumulators> sums{};
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const Doubles* first = vectors.data();
    // The compiler must not know that this is where the last pass began, or it would read once.
    __asm__ volatile("" : "+r"(first));
    for (std::size_t i = 0; i < vectors.size(); i += kAccumulators) {
      for (std::size_t a = 0; a < kAccumulators; ++a) {
        sums[a] += first[i + a];
      }
    }
  }
  return sum_of_lanes(sums);
}

void probe_reads(double seconds, std::size_t largest_bytes, CpuLimits& limits) {
  const auto threads = static_cast<std::size_t>(limits.threads);
  // Each thread owns its pages and touches them first, so that they lie in its NUMA node.
  std::vector<std::unique_ptr<Pages>> pages;
  const std::size_t most_vectors =
      largest_bytes / threads / sizeof(Doubles) / kAccumulators * kAccumulators;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    pages.push_back(std::make_unique<Pages>(most_vectors * sizeof(Doubles)));
  }
  run_together(threads, [&](std::size_t thread) {
    std::ranges::fill(pages[thread]->values(), Doubles{} + 1.0);
  });

  std::vector<double> sums(threads);
  std::size_t vectors = kSmallestBytesPerThread / sizeof(Doubles) / kAccumulators * kAccumulators;
  while (true) {
    std::vector<std::size_t> passes_done(threads);
    const std::size_t bytes = vectors * sizeof(Doubles) * threads;
    const Rate rate = best_rate(
        threads, static_cast<double>(bytes), seconds, [&](std::size_t thread, std::size_t passes) {
          sums[thread] = sum_values(pages[thread]->values().first(vectors), passes);
          passes_done[thread] = passes;
        });
    for (std::size_t thread = 0; thread < threads; ++thread) {
      // Every value is 1 and the sum exact: the sum tells whether all of them were really read.
      if (sums[thread] != static_cast<double>(vectors * lanes<Doubles>() * passes_done[thread])) {
        throw std::runtime_error("the bandwidth probe did not read what it timed");
      }
    }
    limits.read_by_size.push_back({bytes, rate.per_second / 1e9});
    limits.read_gbs = rate.per_second / 1e9;
    limits.cpu_share = std::min(limits.cpu_share, rate.cpu_share);
    if (vectors == most_vectors) {
      return;
    }
    // The last step may be shorter or longer than a doubling, so that it ends at the largest set.
    vectors = vectors * 3 < most_vectors ? vectors * 2 : most_vectors;
  }
}

// ---- multiplying and adding

/// Iterates x = x / 2 + 1 from different starts; every x ends at exactly 2, which proves the work.
template <typename Vector>
double iterate_to_two(std::size_t iterations) {
  std::array<Vector, kAccumulators> x{};
  for (std::size_t a = 0; a < kAccumulators; ++a) {
    x[a] += static_cast<float>(a); // different, or the compiler would keep one of them only
  }
  for (std::size_t i = 0; i < iterations; ++i) {
    for (Vector& each : x) {
      each = each * 0.5F + 1.0F; // contracted to one fused multiply-add
    }
  }
  return sum_of_lanes(x);
}

template <typename Vector>
double probe_fma(double seconds, CpuLimits& limits) {
  const auto threads = static_cast<std::size_t>(limits.threads);
  constexpr std::size_t kIterations = 1000; // a pass; far more than reaching 2 takes
  constexpr double kValues = static_cast<double>(kAccumulators * lanes<Vector>());
  std::vector<double> totals(threads);
  const Rate rate = best_rate(threads, 2.0 * kValues * kIterations * static_cast<double>(threads),
                              seconds, [&](std::size_t thread, std::size_t passes) {
                                totals[thread] = iterate_to_two<Vector>(passes * kIterations);
                              });
  for (const double total : totals) {
    if (total != 2.0 * kValues) {
      throw std::runtime_error("the FMA probe did not compute what it timed");
    }
  }
  limits.cpu_share = std::min(limits.cpu_share, rate.cpu_share);
  return rate.per_second / 1e9;
}

// ---- comparing

// Scores of so many points, a lane each, and so many centroids lie in the first-level cache.
constexpr std::size_t kPointVectors = 4;
constexpr std::size_t kGroup = 16;
constexpr std::size_t kGroups = 4;

/// Finds the least score of every lane, and in which group of centroids it is. Within a group
/// minima are enough: where the least one is, a second look at one group tells. The sum of all that
/// was found.
template <typename Vector>
double find_least(std::span<const Vector> scores, std::size_t passes) {
  using Integers = decltype(Vector{} < Vector{});
  std::array<Vector, kPointVectors> least{};
  std::array<Integers, kPointVectors> found{};
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const Vector* next = scores.data();
    // every pass has scores of its own, for all the compiler knows
    __asm__ volatile("" : "+r"(next));
    for (std::size_t p = 0; p < kPointVectors; ++p) {
      least[p] = next[p];
      found[p] = Integers{};
    }
    for (std::size_t group = 0; group < kGroups; ++group) {
      std::array<Vector, kPointVectors> of_group;
      std::copy_n(next, kPointVectors, of_group.begin());
      for (std::size_t j = 1; j < kGroup; ++j) {
        for (std::size_t p = 0; p < kPointVectors; ++p) {
          // a minimum waits for none of the last few
          const Vector score = next[j * kPointVectors + p];
          of_group[p] = score < of_group[p] ? score : of_group[p];
        }
      }
      for (std::size_t p = 0; p < kPointVectors; ++p) {
        const Integers nearer = of_group[p] < least[p];
        least[p] = nearer ? of_group[p] : least[p];
        found[p] = nearer ? Integers{} + static_cast<int>(group) : found[p];
      }
      next += kGroup * kPointVectors;
    }
  }
  return sum_of_lanes(least) + sum_of_lanes(found);
}

template <typename Vector>
double probe_comparing(double seconds, CpuLimits& limits) {
  const auto threads = static_cast<std::size_t>(limits.threads);
  constexpr std::size_t kVectors = kPointVectors * kGroup * kGroups;
  constexpr double kLanes = static_cast<double>(kPointVectors * lanes<Vector>());
  std::vector<Vector> scores(kVectors, Vector{} + 2);
  constexpr std::size_t kLeastOf = kGroup * (kGroups - 1) + 5; // a centroid of the last group
  std::fill_n(scores.begin() + kLeastOf * kPointVectors, kPointVectors, Vector{} + 1);
  std::vector<double> found(threads);
  const Rate rate = best_rate(threads, static_cast<double>(kVectors * lanes<Vector>() * threads),
                              seconds, [&](std::size_t thread, std::size_t passes) {
                                found[thread] = find_least<Vector>(scores, passes);
                              });
  for (const double each : found) {
    if (each != kLanes * (1.0 + static_cast<double>(kGroups - 1))) {
      // a score of 1, in the last group
      throw std::runtime_error("the comparing probe did not find what it timed");
    }
  }
  limits.cpu_share = std::min(limits.cpu_share, rate.cpu_share);
  return rate.per_second / 1e9;
}

} // namespace

std::size_t memory_working_set() {
  std::size_t last_level = 0;
  for (const CpuCache& cache : cpu_caches()) {
    if (cache.level >= 3) {
      last_level += cache.bytes * cache.instances;
    }
  }
  const std::size_t wanted = std::max(2 * last_level, std::size_t{256} << 20);
  return std::min(wanted, available_memory_bytes() / 4);
}

CpuLimits probe_cpu(int threads, double seconds_per_measurement, std::size_t largest_bytes) {
  if (threads < 1 || !(seconds_per_measurement > 0.0)) {
    throw std::invalid_argument("the probe needs at least one thread and some time");
  }
  const auto count = static_cast<std::size_t>(threads);
  if (largest_bytes / count < kSmallestBytesPerThread) {
    throw std::invalid_argument(fmt::format("the probe needs at least {} bytes for {} threads",
                                            kSmallestBytesPerThread * count, threads));
  }
  CpuLimits limits;
  limits.threads = threads;
  limits.vector_bits = static_cast<int>(8 * kVectorBytes);
  limits.cpu_share = 1.0;
  limits.pinned = run_together(count, [](std::size_t) {}).pinned;
  limits.fma_f32_gflops = probe_fma<Floats>(seconds_per_measurement, limits);
  limits.fma_f64_gflops = probe_fma<Doubles>(seconds_per_measurement, limits);
  limits.compare_f32_gpairs = probe_comparing<Floats>(seconds_per_measurement, limits);
  limits.compare_f64_gpairs = probe_comparing<Doubles>(seconds_per_measurement, limits);
  probe_reads(seconds_per_measurement, largest_bytes, limits);
  return limits;
}

std::vector<CpuLimits> probe_cpu_scaling(int max_threads, double seconds_per_measurement,
                                         std::size_t largest_bytes) {
  std::vector<CpuLimits> limits;
  for (int threads = 1; threads < max_threads; threads *= 2) {
    limits.push_back(probe_cpu(threads, seconds_per_measurement, largest_bytes));
  }
  limits.push_back(probe_cpu(max_threads, seconds_per_measurement, largest_bytes));
  return limits;
}

double read_limit_gbs(const CpuLimits& limits, std::size_t bytes) {
  const std::vector<ReadLimit>& sizes = limits.read_by_size;
  if (sizes.empty()) {
    throw std::invalid_argument("no read bandwidth was measured");
  }
  const auto above = std::ranges::lower_bound(sizes, bytes, {}, &ReadLimit::bytes);
  if (above == sizes.begin()) {
    return sizes.front().gbs;
  }
  if (above == sizes.end()) {
    return sizes.back().gbs;
  }
  const auto below = above - 1;
  const auto log_of = [](std::size_t value) { return std::log(static_cast<double>(value)); };
  const double position =
      (log_of(bytes) - log_of(below->bytes)) / (log_of(above->bytes) - log_of(below->bytes));
  return std::lerp(below->gbs, above->gbs, position);
}

void to_json(nlohmann::json& json, const CpuLimits& limits) {
  json = {{"threads", limits.threads},
          {"pinned", limits.pinned},
          {"cpu_share", limits.cpu_share},
          {"vector_bits", limits.vector_bits},
          {"read_gbs", limits.read_gbs},
          {"fma_f32_gflops", limits.fma_f32_gflops},
          {"fma_f64_gflops", limits.fma_f64_gflops},
          {"compare_f32_gpairs", limits.compare_f32_gpairs},
          {"compare_f64_gpairs", limits.compare_f64_gpairs},
          {"read_by_size", nlohmann::json::array()}};
  for (const ReadLimit& limit : limits.read_by_size) {
    json["read_by_size"].push_back({{"bytes", limit.bytes}, {"gbs", limit.gbs}});
  }
}

void from_json(const nlohmann::json& json, CpuLimits& limits) {
  json.at("threads").get_to(limits.threads);
  json.at("pinned").get_to(limits.pinned);
  json.at("cpu_share").get_to(limits.cpu_share);
  json.at("vector_bits").get_to(limits.vector_bits);
  json.at("read_gbs").get_to(limits.read_gbs);
  json.at("fma_f32_gflops").get_to(limits.fma_f32_gflops);
  json.at("fma_f64_gflops").get_to(limits.fma_f64_gflops);
  json.at("compare_f32_gpairs").get_to(limits.compare_f32_gpairs);
  json.at("compare_f64_gpairs").get_to(limits.compare_f64_gpairs);
  limits.read_by_size.clear();
  for (const nlohmann::json& entry : json.at("read_by_size")) {
    limits.read_by_size.push_back(
        {entry.at("bytes").get<std::size_t>(), entry.at("gbs").get<double>()});
  }
}

} // namespace clusterbench

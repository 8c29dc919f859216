// How fast is the processor just now? One piece of work, always the same, takes longer while others
// use the core, its other hyperthread, or the heat that a package may make. Operating systems are
// judged by such a "fixed work quantum" (Sottile and Minnich, Analysis of microbenchmarks for
// performance tuning of clusters, 2004).
#pragma once

#include <barrier>
#include <thread>
#include <vector>

namespace clusterbench {

/// The work, on several threads at once. It uses registers alone, so it leaves the caches as they
/// are.
class FixedWork {
public:
  /// On so many threads, but at most one for each processor that may be used. The kernel places
  /// them.
  explicit FixedWork(int threads);
  /// On these processors, a thread on each; on fewer where there is no memory for so many threads.
  explicit FixedWork(std::vector<int> processors);
  ~FixedWork();
  FixedWork(const FixedWork&) = delete;
  FixedWork& operator=(const FixedWork&) = delete;

  /// Does it once, in about 0.1 ms. What the slowest of the threads took [µs].
  double microseconds();
  /// What each of them took [µs].
  const std::vector<double>& of_each() const { return microseconds_; }
  /// As many as there are threads; none: the kernel placed them.
  const std::vector<int>& processors() const { return processors_; }

private:
  FixedWork(std::vector<int> processors, std::size_t threads);
  void work_when_told(std::size_t thread, int processor);

  std::vector<int> processors_;
  std::vector<double> microseconds_; ///< of each thread
  std::barrier<> begin_, end_;       ///< of the threads and the one that asks
  bool stop_ = false;                ///< what begin_ hands over
  std::vector<std::jthread> threads_;
};

} // namespace clusterbench

// A problem made concrete: its points and initial state in shared memory, ready for children.
#pragma once

#include "harness/problem/problem.hpp"
#include "harness/problem/problem_spec.hpp"
#include "harness/system/shared_memory.hpp"

#include <map>
#include <memory>
#include <string>

namespace clusterbench {

/// The points of a dataset in one precision. Shared by all cells on the same data.
struct PointSet {
  std::string sha256;   ///< of the dataset's content, before rounding
  std::string key;      ///< points_key() of them as they are in memory
  std::string identity; ///< sha256, type and shape of the dataset: equal ones are the same points
  std::string conversion; ///< of the file's numbers, see datasets::conversion_of(); mostly empty
  std::size_t n = 0;    ///< points
  std::size_t d = 0;    ///< features
  double load_ms = 0;   ///< reading the file, checking and rounding; once
  SharedMemory memory;  ///< [n, d] row-major, float or double
};

struct Workload {
  ProblemSpec spec;
  Precision precision = Precision::f32;
  std::string hash; ///< problem_hash()
  std::size_t n = 0, d = 0, k = 0;
  StopRule stop; ///< scaled: what variants see
  std::shared_ptr<const PointSet> points;
  SharedMemory initial; ///< [k, d] centroids, or [n, k] memberships
  bool starts_from_memberships = false;
  std::vector<std::size_t> initial_rows; ///< chosen data rows, where the initial state is such

  /// The problem as a variant sees it; the spans stay valid as long as this workload.
  template <typename T>
  Problem<T> problem(int threads) const;
};

/// Loads data, checks them, rounds them to the precision and makes the initial state. Keeps the
/// point sets that it used last, because consecutive cells share them; their files are not looked at
/// again.
class WorkloadBuilder {
public:
  /// Throws datasets::InputError for anything a user can get wrong: unknown data, NaN, k = 0,
  /// k > n, rows out of range or repeated, an initial state of the wrong shape; and for files that are
  /// not what they were when they were read first. Throws OutOfMemory.
  Workload build(const ProblemSpec& spec, Precision precision);

private:
  struct Cached {
    std::string key;
    std::shared_ptr<const PointSet> points;
  };
  std::shared_ptr<const PointSet> points(const ProblemSpec& spec, Precision precision);
  void keep(const std::string& key, std::shared_ptr<const PointSet> points);
  void check_unchanged(const std::string& file, const std::string& sha256);
  std::vector<Cached> cache_;
  std::map<std::string, std::string> sha256_; ///< of every dataset and file, as they were first
};

} // namespace clusterbench

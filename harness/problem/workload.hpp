// A problem made concrete: its points and initial state in shared memory, ready for children.
#pragma once

#include "datasets/file_in_place.hpp"
#include "harness/problem/problem.hpp"
#include "harness/problem/problem_spec.hpp"
#include "harness/system/shared_memory.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>

namespace clusterbench {

/// Where a worker finds points: an inherited descriptor, and the first byte that counts.
struct PointsPlace {
  PointsPlace(const SharedMemory& memory) : descriptor(memory.fd()) {}
  PointsPlace(const datasets::FileInPlace& file, std::size_t first, std::string dataset)
      : descriptor(file.descriptor()), offset(first), in_file(true), generated(std::move(dataset)) {
  }

  int descriptor;
  std::size_t offset = 0;
  bool in_file = false;
  std::string generated; ///< the dataset whose rows a rank may make by itself; empty: it reads them
};

/// The points of a dataset in one precision, and their weights. Shared by all cells on the same
/// data.
struct PointSet {
  std::string sha256; ///< of the dataset's content, before rounding
  std::string key;    ///< points_key() of them as they are in memory
  /// sha256, type and shape of the dataset, and of the weights: equal ones are the same points.
  std::string identity;
  std::string conversion; ///< of the file's numbers, see datasets::conversion_of(); mostly empty
  std::size_t n = 0;      ///< points
  std::size_t d = 0;      ///< features
  double load_ms = 0;     ///< reading the file, checking and rounding; once
  SharedMemory memory;    ///< [n, d] row-major, float or double
  SharedMemory weights;   ///< [n] of the same type, or nothing
  std::string weights_sha256;     ///< of their file's numbers, before rounding
  std::string weights_conversion; ///< as `conversion`
  /// With a limit of the memory the points stay in their file instead, from byte `offset` on.
  std::unique_ptr<const datasets::FileInPlace> file;
  std::size_t offset = 0;
  std::string generated; ///< of a file in the cache: the dataset, if its rows can be made alone

  /// [n, d]
  template <typename T>
  std::span<const T> values() const {
    return file == nullptr
               ? memory.as<T>()
               : std::span(reinterpret_cast<const T*>(file->bytes().data() + offset), n * d);
  }
  /// What a worker inherits to read them from.
  PointsPlace place() const {
    return file == nullptr ? PointsPlace(memory) : PointsPlace(*file, offset, generated);
  }
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
/// point sets that it used last, because consecutive cells share them; their files are not looked
/// at again.
class WorkloadBuilder {
public:
  /// memory_limit: bytes; then points stay in their files, and no more than a share of the limit is
  /// in memory at a time. 0: none.
  explicit WorkloadBuilder(std::size_t memory_limit = 0) : memory_limit_(memory_limit) {}

  /// Throws datasets::InputError for anything a user can get wrong: unknown data, NaN, k = 0,
  /// k > n, rows out of range or repeated, an initial state of the wrong shape, weights that are
  /// none; and for files that are not what they were when they were read first. Throws OutOfMemory.
  Workload build(const ProblemSpec& spec, Precision precision);
  /// The same checks, without making data that a generator makes and that have 128 MiB or more as
  /// float64, where those need none: with a start by rows of its own, weights or a limit of memory
  /// they do. Of data that are not made, values are not looked at.
  void check(const ProblemSpec& spec, Precision precision);

private:
  struct Cached {
    std::string key;
    std::shared_ptr<const PointSet> points;
  };
  std::shared_ptr<const PointSet> points(const ProblemSpec& spec, Precision precision);
  std::shared_ptr<PointSet> points_in_file(const ProblemSpec& spec, Precision precision) const;
  template <typename T>
  void add_weights(PointSet& points, const ProblemSpec& spec, std::size_t rows);
  void keep(const std::string& key, std::shared_ptr<const PointSet> points);
  void check_unchanged(const std::string& what, const std::string& file, const std::string& sha256);
  std::size_t memory_limit_;
  std::vector<Cached> cache_;
  /// Of every dataset and file, as they were first, by what they are read as.
  std::map<std::pair<std::string, std::string>, std::string> sha256_;
};

} // namespace clusterbench

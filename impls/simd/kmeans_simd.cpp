// K-means in vector registers: labels and sums in one pass over the data, by kernels for the shape.
//
// Changed since kmeans_openmp: a chunk of points is labelled and summed while it is in the cache, by
//   kernels of vectors (support/): a lane is a point where there are few features, or a feature
//   where there are many; sums are registers where they fit. The kernels are compiled for several
//   instruction sets, the widest is taken at run time. Sums of few features are kept from pass to pass
//   once few points change their labels, and those are moved. One team of threads stays for the whole run
//   and meets two or three times a pass, where a parallel region per phase would be started and ended.
// Source: Lloyd 1982; privatised sums as in kmeans_openmp. The table of shapes below is measured.
// Cost per iteration: n d sizeof(T) bytes read; 3 n k d + n d flops, up to 32 of them an
//   instruction; 2 n k d where scores sieve centroids.
// Limits: points are copied into another layout unless the path reads rows; bits differ between
//   numbers of threads and between instruction sets.
#include "impls/contract.hpp"
#include "impls/simd/support/columns.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/lloyd.hpp"
#include "impls/simd/support/sieve.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

using simd::Chunk;
using simd::Kernels;

/// How points are labelled; the first two sum them at the same time.
enum class Assign { and_sum_in_registers, and_sum_rows, small_d, columns, sieve };
enum class Sum { at_once, by_mask, by_label, in_double };

/// How a shape is worked on.
struct Path {
  std::string_view name;
  std::size_t max_d, max_k, max_kd; ///< the largest shape that it is for
  Assign assign;
  Sum sum;
};

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

/// The first that takes a shape is the fastest for it.
constexpr Path kPaths[] = {
    {"registers", 3, 5, kAny, Assign::and_sum_in_registers, Sum::at_once},
    {"registers", 2, simd::kPassK, kAny, Assign::and_sum_in_registers, Sum::at_once},
    {"few features, masked sums", simd::kSmallD, kAny, 40, Assign::small_d, Sum::by_mask},
    {"few features, sums by label", simd::kSmallD, kAny, 2048, Assign::small_d, Sum::by_label},
    {"few features, sums in double", simd::kSmallD, kAny, kAny, Assign::small_d, Sum::in_double},
    {"rows", kAny, 8, kAny, Assign::and_sum_rows, Sum::at_once},
    {"tiles, sums by label", 24, 64, 2048, Assign::columns, Sum::by_label},
    {"sieve, sums by label", kAny, kAny, 2048, Assign::sieve, Sum::by_label},
    {"sieve, sums in double", kAny, kAny, kAny, Assign::sieve, Sum::in_double},
};

const Path& path_for(std::size_t d, std::size_t k) {
  return *std::ranges::find_if(kPaths, [&](const Path& path) {
    return d <= path.max_d && k <= path.max_k && k * d <= path.max_kd;
  });
}

/// The kernels of a path: one that does everything, or two, one after the other.
template <typename T>
struct PathKernels {
  PathKernels(const Kernels<T>& kernels, const Path& path, std::size_t d, std::size_t k) {
    switch (path.assign) {
    case Assign::and_sum_in_registers:
      pass = kernels.pass_in_registers[d - 1][k - 1];
      break;
    case Assign::and_sum_rows:
      pass = kernels.pass_by_rows;
      break;
    case Assign::small_d:
      assign = kernels.assign_small_d[d];
      break;
    case Assign::columns:
      assign = kernels.assign_columns;
      break;
    case Assign::sieve:
      sieve = kernels.sieve_columns;
      break;
    }
    switch (path.sum) {
    case Sum::at_once:
      break;
    case Sum::by_mask:
      sum = kernels.sum_by_mask;
      break;
    case Sum::by_label:
      sum = kernels.sum_by_label;
      break;
    case Sum::in_double:
      sum = kernels.sum_in_double;
      break;
    }
    reads_columns = path.assign != Assign::and_sum_rows && path.assign != Assign::sieve;
    uses_scratch = path.assign == Assign::and_sum_rows || path.sum == Sum::by_label;
    needs_labels = path.assign != Assign::and_sum_in_registers;
  }

  simd::PassKernel<T> pass = nullptr;
  simd::AssignKernel<T> assign = nullptr;
  simd::SieveKernel<T> sieve = nullptr;
  simd::SumKernel<T> sum = nullptr;
  bool reads_columns, uses_scratch, needs_labels;
};

template <typename T>
class KmeansSimd final : public simd::Lloyd<T> {
  using Base = simd::Lloyd<T>;
  using Part = simd::Part<T>;

public:
  void prepare(const Problem<T>& problem) override {
    const auto [n, d, k] = std::tuple(problem.n, problem.d, problem.k);
    path_ = &path_for(d, k);
    work_ = PathKernels<T>(kernels_, *path_, d, k);
    Base::start_team(problem, work_.uses_scratch, may_keep_sums(problem));
    columns_.clear();
    if (work_.reads_columns) {
      columns_ = simd::as_columns(problem.points, n, d, kernels_.lanes);
    }
    if (work_.sieve != nullptr) {
      const std::size_t group = kernels_.sieve_group;
      sieve_ = simd::SieveMaker<T>(problem.points, n, d, k, group, kernels_.lanes, Base::threads());
      minima_.assign(Base::threads(), std::vector<T>((k / group + 1) * simd::kRoundUp));
    }
  }

  std::string chosen_path() const override {
    return std::string(path_->name) + ", " + kernels_.isa;
  }

private:
  bool needs_labels() const override { return work_.needs_labels; }

  void start_pass(std::size_t t) override {
    if (work_.sieve != nullptr) {
      sieve_.pack(Base::centroids(), t);
      Base::barrier();
    }
  }

  void assign_and_sum(std::size_t t, Part& part, std::size_t i, std::size_t count,
                      std::int32_t* labels, T* distances) override {
    const auto [d, k] = std::pair(Base::problem().d, Base::problem().k);
    const T* points = &Base::problem().points[i * d];
    const T* centroids = Base::centroids().data();
    const Chunk<T> chunk{points, columns_.empty() ? nullptr : &columns_[i * d], count, d};
    T* scratch = part.scratch.data();
    if (work_.pass != nullptr) {
      work_.pass(chunk, centroids, k, labels, distances, scratch, part.sums.data(),
                 part.counts.data());
      return;
    }
    if (work_.sieve != nullptr) {
      work_.sieve({points, sieve_.columns(i), count, d}, sieve_.norms(i), sieve_.sieve(), centroids,
                  k, minima_[t].data(), labels, distances);
    } else {
      work_.assign(chunk, centroids, k, labels, distances);
    }
    if (part.keeps) {
      return;
    }
    std::fill(labels + count, labels + simd::rounded_up(count), -1);
    work_.sum(chunk, labels, k, scratch, part.sums.data(), part.counts.data());
  }

  /// Whether moving points that change their labels pays, and leaves nothing behind.
  bool may_keep_sums(const Problem<T>& problem) const {
    if (path_->sum != Sum::by_label || path_->assign != Assign::small_d ||
        sizeof(T) != sizeof(float)) {
      return false;
    }
    double largest = 0.0, smallest = std::numeric_limits<double>::infinity();
    for (const T x : problem.points) {
      if (std::isnan(x)) {
        return false;
      }
      largest = std::max(largest, std::abs(double{x}));
      smallest = x == T{0} ? smallest : std::min(smallest, std::abs(double{x}));
    }
    return largest <= simd::kMostRange * smallest;
  }

  std::size_t sum_changes(Part& part, std::size_t i, std::size_t count, const std::int32_t* labels,
                          std::int32_t* previous, bool all) override {
    const auto [d, k] = std::pair(Base::problem().d, Base::problem().k);
    return kernels_.sum_changes[d]({nullptr, &columns_[i * d], count, d}, labels, previous, all, k,
                                   part.kept.data(), part.counts.data());
  }

  const Kernels<T>& kernels_ = *simd::executable_kernels<T>().back();
  const Path* path_ = nullptr;
  PathKernels<T> work_{kernels_, kPaths[0], 1, 1};
  std::vector<T> columns_;             // [n, d] in blocks of lanes, if the path reads them
  simd::SieveMaker<T> sieve_;          // if the path has one
  std::vector<std::vector<T>> minima_; // [threads] of the sieve
};

const Registration registration({.name = "kmeans_simd",
                                 .idea = "fused passes in vector registers, a path for each shape",
                                 .source = "Lloyd 1982",
                                 .previous = "kmeans_openmp"},
                                both_precisions<KmeansSimd>());

} // namespace
} // namespace clusterbench

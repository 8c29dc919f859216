// K-means in vector registers: labels and sums in one pass over the data, by kernels for the shape.
//
// Changed since kmeans_openmp: a chunk of points is labelled and summed while it is in the cache,
//   by kernels of vectors (support/): a lane is a point where there are few features, or a feature
//   where there are many; sums are registers where they fit. The kernels are compiled for several
//   instruction sets, the widest is taken at run time. Where sums are not registers those of floats
//   are kept from pass to pass, and points that change their labels are moved. One team of threads
//   stays for the whole run and meets two or three times a pass, where a parallel region per phase
//   would be started and ended.
// Source: Lloyd 1982; privatised sums as in kmeans_openmp. The table of shapes below is measured.
// Cost per iteration: n d sizeof(T) bytes read; 3 n k d + n d flops, up to 32 of them an
//   instruction; 2 n k d where scores sieve centroids.
// Limits: points are copied into another layout unless the path reads rows; bits differ between
//   numbers of threads and between instruction sets. Points with weights have simpler paths.
#include "impls/contract.hpp"
#include "impls/simd/support/aligned.hpp"
#include "impls/simd/support/dispatch.hpp"
#include "impls/simd/support/lloyd.hpp"
#include "impls/simd/support/sieve.hpp"

#include <algorithm>

namespace clusterbench {
namespace {

using simd::Kernels;

/// How points are labelled; the first two sum them at the same time.
enum class Assign { and_sum_in_registers, and_sum_rows, small_d, columns, sieve };

/// How a shape is worked on.
template <typename T>
struct Path {
  std::string_view name;
  std::size_t max_d, max_k, max_kd; ///< the largest shape that it is for
  Assign assign;
  /// Null if points are summed as they are labelled, or have weights.
  simd::SumKernel<T> Kernels<T>::*sum;
};

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

/// The first that takes a shape is the fastest for it.
template <typename T>
constexpr Path<T> kPaths[] = {
    {"registers", 3, 5, kAny, Assign::and_sum_in_registers, nullptr},
    {"registers", 2, simd::kPassK, kAny, Assign::and_sum_in_registers, nullptr},
    {"few features, masked sums", simd::kSmallD, kAny, 40, Assign::small_d,
     &Kernels<T>::sum_by_mask},
    {"few features, sums by label", simd::kSmallD, kAny, 2048, Assign::small_d,
     &Kernels<T>::sum_by_label},
    {"few features, sums in double", simd::kSmallD, kAny, kAny, Assign::small_d,
     &Kernels<T>::sum_in_double},
    {"rows", kAny, 8, kAny, Assign::and_sum_rows, nullptr},
    {"tiles, sums by label", 24, 64, 2048, Assign::columns, &Kernels<T>::sum_by_label},
    {"sieve, sums by label", kAny, kAny, 2048, Assign::sieve, &Kernels<T>::sum_by_label},
    {"sieve, sums in double", kAny, kAny, kAny, Assign::sieve, &Kernels<T>::sum_in_double},
};

/// Where points have weights; all are summed in double once they are labelled.
template <typename T>
constexpr Path<T> kWeightedPaths[] = {
    {"few features, weighted sums", simd::kSmallD, kAny, kAny, Assign::small_d, nullptr},
    {"tiles, weighted sums", 24, 64, kAny, Assign::columns, nullptr},
    {"tiles, weighted sums", kAny, 8, kAny, Assign::columns, nullptr},
    {"sieve, weighted sums", kAny, kAny, kAny, Assign::sieve, nullptr},
};

template <typename T>
class KmeansSimd final : public simd::Lloyd<T> {
  using Base = simd::Lloyd<T>;
  using Part = simd::Part<T>;

public:
  void prepare(const Shape& shape, const Points<T>& points) override {
    const auto [n, d, k] = std::tuple(shape.n, shape.d, shape.k);
    const std::span<const Path<T>> paths = shape.weighted
                                               ? std::span<const Path<T>>(kWeightedPaths<T>)
                                               : std::span<const Path<T>>(kPaths<T>);
    path_ = &*std::ranges::find_if(paths, [d = d, k = k](const Path<T>& path) {
      return d <= path.max_d && k <= path.max_k && k * d <= path.max_kd;
    });
    const Assign assign = path_->assign;
    const bool sums_rows = path_->sum == &Kernels<T>::sum_in_double || sums_by_label();
    Base::start_team(shape, points);
    columns_ = {};
    if (assign == Assign::sieve) {
      sieve_ = simd::SieveMaker<T>(points.rows, n, d, k, Base::kernels(), Base::team().size());
      const std::size_t groups = k / Base::kernels().sieve_group + 1;
      minima_.assign(Base::team().size(), std::vector<T>(groups * simd::kRoundUp));
    } else if (assign != Assign::and_sum_rows) {
      columns_.resize(simd::rounded_up(n) * d);
    }
    if (assign != Assign::and_sum_rows) {
      Base::read_points(sums_rows, [this](std::size_t t, std::size_t i, std::size_t count) {
        make_columns(t, i, count);
      });
    }
    Base::make_parts(assign == Assign::and_sum_rows || sums_by_label());
  }

  std::string chosen_path() const override {
    const std::string_view labels = path_->name.substr(0, path_->name.find(','));
    return (Base::moves() ? std::string(labels) + ", moved rows" : std::string(path_->name)) +
           ", " + Base::kernels().isa;
  }

private:
  bool sums_by_label() const { return path_->sum == &Kernels<T>::sum_by_label; }

  bool needs_labels() const override { return path_->assign != Assign::and_sum_in_registers; }

  void make_columns(std::size_t t, std::size_t i, std::size_t count) {
    if (path_->assign == Assign::sieve) {
      sieve_.take(t, i, count);
    } else {
      const std::size_t d = Base::shape().d;
      Base::kernels().columns_of_rows({&Base::points()[i * d], nullptr, count, d}, nullptr,
                                      &columns_[i * d]);
    }
  }

  void start_pass(std::size_t t) override {
    if (path_->assign == Assign::sieve) {
      sieve_.pack(Base::centroids(), t);
      Base::team().barrier();
    }
  }

  void assign_and_sum(std::size_t t, Part& part, std::size_t i, std::size_t count,
                      std::int32_t* labels, T* distances) override {
    const auto [d, k] = std::pair(Base::shape().d, Base::shape().k);
    const Kernels<T>& kernels = Base::kernels();
    const T* centroids = Base::centroids().data();
    const T* columns = path_->assign == Assign::sieve ? sieve_.columns(i)
                       : columns_.empty()             ? nullptr
                                                      : &columns_[i * d];
    const simd::Chunk<T> chunk{&Base::points()[i * d], columns, count, d};
    T* scratch = part.scratch.data();
    double *sums = part.sums.data(), *counts = part.counts.data();
    switch (path_->assign) {
    case Assign::and_sum_in_registers:
      return kernels.pass_in_registers[d - 1][k - 1](chunk, centroids, k, labels, distances,
                                                     scratch, sums, counts);
    case Assign::and_sum_rows:
      return kernels.pass_by_rows(chunk, centroids, k, labels, distances, scratch, sums, counts);
    case Assign::small_d:
      kernels.assign_small_d[d](chunk, centroids, k, labels, distances);
      break;
    case Assign::columns:
      kernels.assign_columns(chunk, centroids, k, labels, distances);
      break;
    case Assign::sieve:
      if (path_->sum != nullptr && !Base::moves()) {
        ask_for_rows(chunk);
      }
      kernels.sieve_columns(chunk, sieve_.norms(i), sieve_.sieve(), centroids, k, minima_[t].data(),
                            labels, distances);
      break;
    }
    if (path_->sum == nullptr) {
      kernels.sum_with_weights(chunk, &Base::weights()[i], labels, sums, counts);
    } else if (!Base::moves()) {
      std::fill(labels + count, labels + simd::rounded_up(count), -1);
      (kernels.*path_->sum)(chunk, labels, k, scratch, sums, counts);
    }
  }

  /// Rows that will be summed are on their way while they are labelled from columns, unless a chunk
  /// of them fills the second-level cache.
  static void ask_for_rows(const simd::Chunk<T>& chunk) {
    constexpr std::size_t kLine = 64 / sizeof(T), kMost = (256 << 10) / sizeof(T);
    const std::size_t values = chunk.count * chunk.d;
    for (std::size_t v = 0; v < values && values <= kMost; v += kLine) {
      __builtin_prefetch(chunk.points + v, 0, 2);
    }
  }

  const Path<T>* path_ = nullptr;
  simd::UntouchedVector<T> columns_;   // [n, d] in blocks of lanes, if the path reads them
  simd::SieveMaker<T> sieve_;          // if the path has one
  std::vector<std::vector<T>> minima_; // [threads] of the sieve
};

const Registration registration({.name = "kmeans_simd",
                                 .idea = "fused passes in vector registers, a path for each shape",
                                 .source = "Lloyd 1982",
                                 .takes_weights = true,
                                 .previous = "kmeans_openmp"},
                                both_precisions<KmeansSimd>());

} // namespace
} // namespace clusterbench

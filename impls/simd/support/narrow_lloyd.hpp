// The run of the variants that score in narrow values: they differ in a kernel and in what it
// reads.
#pragma once

#include "impls/simd/support/lloyd.hpp"

namespace clusterbench::simd {

/// Maker: makes the narrow values of points and centroids of type Maker::Real for a Maker::Kernel,
/// which writes a Maker::Score for each group of centroids.
template <class Maker>
class NarrowLloyd : public Lloyd<typename Maker::Real> {
  using T = typename Maker::Real;
  using Kernel = typename Maker::Kernel;
  using Score = typename Maker::Score;
  using Run = Lloyd<T>;

public:
  std::string refuse(const Shape& /*shape*/) const final { return work_.unavailable; }

  void prepare(const Shape& shape, const Points<T>& points) final {
    constexpr std::size_t kSums = 8192 / sizeof(T); // more do not stay in the cache
    by_label_ = shape.k * shape.d <= kSums;
    Run::start_team(shape, points);
    Run::read_points(true, [](std::size_t, std::size_t, std::size_t) {});
    Run::make_parts(by_label_);
    sieve_ = Maker(points.rows, shape.n, shape.d, shape.k, work_, Run::team());
    minima_.assign(Run::team().size(), AlignedVector<Score>(sieve_.groups() * 2 * kTile));
  }

protected:
  explicit NarrowLloyd(Kernel work) : work_(std::move(work)) {}

private:
  bool needs_labels() const final { return true; }

  void start_pass(std::size_t t) final {
    sieve_.pack(Run::centroids(), t);
    Run::team().barrier();
  }

  void assign_and_sum(std::size_t t, Part<T>& part, std::size_t i, std::size_t count,
                      std::int32_t* labels, T* distances) final {
    const auto [d, k] = std::pair(Run::shape().d, Run::shape().k);
    const Chunk<T> chunk{&Run::points()[i * d], nullptr, count, d};
    work_.kernel(chunk, sieve_.columns(i), sieve_.sieve(), Run::centroids().data(), k,
                 minima_[t].data(), labels, distances);
    if (!Run::moves()) {
      const SumKernel<T> sum =
          by_label_ ? Run::kernels().sum_by_label : Run::kernels().sum_in_double;
      sum(chunk, labels, k, part.scratch.data(), part.sums.data(), part.counts.data());
    }
  }

  Kernel work_;
  bool by_label_ = false;
  Maker sieve_;
  std::vector<AlignedVector<Score>> minima_; // [threads]
};

} // namespace clusterbench::simd

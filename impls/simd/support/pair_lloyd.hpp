// The run of the two variants that score in bfloat16: they differ in one kernel and its panels.
#pragma once

#include "impls/simd/support/lloyd.hpp"
#include "impls/simd/support/pair_sieve.hpp"

namespace clusterbench::simd {

class PairLloyd : public Lloyd<float> {
public:
  std::string refuse(const Shape& /*shape*/) const final { return work_.unavailable; }

  void prepare(const Shape& shape, const Points<float>& points) final {
    constexpr std::size_t kFloatSums = 2048; // values; more do not stay in the cache
    by_label_ = shape.k * shape.d <= kFloatSums;
    start_team(shape, points, by_label_);
    sieve_ = PairSieveMaker(points.rows, shape.n, shape.d, shape.k, work_.tiles, team());
    minima_.assign(team().size(), AlignedVector<float>(sieve_.groups() * 2 * kTile));
  }

protected:
  explicit PairLloyd(PairKernel work) : work_(std::move(work)) {}

private:
  bool needs_labels() const final { return true; }

  void start_pass(std::size_t t) final {
    sieve_.pack(centroids(), t);
    team().barrier();
  }

  void assign_and_sum(std::size_t t, Part<float>& part, std::size_t i, std::size_t count,
                      std::int32_t* labels, float* distances) final {
    const auto [d, k] = std::pair(shape().d, shape().k);
    const Chunk<float> chunk{&points()[i * d], nullptr, count, d};
    work_.kernel(chunk, sieve_.columns(i), sieve_.sieve(), centroids().data(), k, minima_[t].data(),
                 labels, distances);
    const SumKernel<float> sum = by_label_ ? kernels().sum_by_label : kernels().sum_in_double;
    sum(chunk, labels, k, part.scratch.data(), part.sums.data(), part.counts.data());
  }

  PairKernel work_;
  bool by_label_ = false;
  PairSieveMaker sieve_;
  std::vector<AlignedVector<float>> minima_; // [threads]
};

} // namespace clusterbench::simd

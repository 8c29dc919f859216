// K-means with scores in 16-bit integers, two multiply-adds a lane, and labels in full precision.
//
// Changed since kmeans_simd_bf16: values are taken relative to a point in the middle of the data,
//   so they need no exponents, and the bits of these become digits. An instruction of AVX512_VNNI
//   makes as many products as one of AVX512_BF16, of as many bytes; none of them rounds, and what
//   rounding to integers leaves is a small part of what rounding to eight bits does
//   (support/short_sieve.hpp). So hardly a point is compared by differences, and one margin serves
//   all points, which need no norms. None of that depends on the type of the data, so float64 has
//   it, too.
// Source: Lloyd 1982; the certificate as in kmeans_cuda_mma (docs/certified.md).
// Cost per iteration: n d / 2 words read; n k d multiply-adds of integers; rows of points that
//   change their cluster, or, in float64, of all.
// Limits: processors with AVX512_VNNI; one point far away takes the digits of all others with it,
//   and they are compared by differences.
#include "impls/simd/support/narrow_lloyd.hpp"
#include "impls/simd/support/short_sieve.hpp"

namespace clusterbench {
namespace {

template <typename T>
class KmeansSimdInt16 final : public simd::NarrowLloyd<simd::ShortSieveMaker<T>> {
public:
  KmeansSimdInt16() : simd::NarrowLloyd<simd::ShortSieveMaker<T>>(simd::short_kernel<T>()) {}
};

const Registration registration(
    {.name = "kmeans_simd_int16",
     .idea = "scores in 16-bit integers by AVX-512, labels proven or compared by differences",
     .source = "Lloyd 1982",
     .previous = "kmeans_simd_bf16"},
    both_precisions<KmeansSimdInt16>());

} // namespace
} // namespace clusterbench

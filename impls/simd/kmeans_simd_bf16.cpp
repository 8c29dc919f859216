// K-means with scores in bfloat16, two multiply-adds a lane, and the labels of float32.
//
// Changed since kmeans_simd: its sieve, in which scores only have to rule centroids out, does not
//   need 24 bits. With eight an instruction makes twice as many products (AVX512_BF16), and points
//   and centroids are half as many bytes. The bound of rounding is wider, so more points are
//   compared by differences; it is made of the residuals that were really left
//   (support/pair_sieve.hpp).
// Source: Lloyd 1982; the certificate as in kmeans_cuda_mma (docs/certified.md).
// Cost per iteration: n d / 2 words read for every sweep; n k d multiply-adds in bfloat16, and 3 d
//   flops for each of the 8 centroids of a group that is not ruled out.
// Limits: float32 data only; for few clusters comparing costs what is saved. Zen 4 makes these
//   products at twice float's rate, a Xeon with AMX at about half: there kmeans_simd is faster.
#include "impls/simd/support/narrow_lloyd.hpp"
#include "impls/simd/support/pair_sieve.hpp"

namespace clusterbench {
namespace {

class KmeansSimdBf16 final : public simd::NarrowLloyd<simd::PairSieveMaker> {
public:
  KmeansSimdBf16() : NarrowLloyd(simd::bf16_kernel()) {}
};

const Registration
    registration({.name = "kmeans_simd_bf16",
                  .idea = "scores in bfloat16 by AVX-512, labels proven or compared in float32",
                  .source = "Lloyd 1982",
                  .previous = "kmeans_simd"},
                 f32_only<KmeansSimdBf16>());

} // namespace
} // namespace clusterbench

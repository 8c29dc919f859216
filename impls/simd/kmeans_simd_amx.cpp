// K-means with scores from the matrix unit of a CPU, and the labels of float32.
//
// Changed since kmeans_simd_bf16: the products are made by AMX, 8192 multiply-adds an instruction,
//   two tiles of points by two of centroids at a time. Products are most of the time all the same:
//   rows of tiles come slower than tiles multiply. A quarter of them is made between the scores of
//   each group.
// Source: Lloyd 1982; the certificate as in kmeans_cuda_mma (docs/certified.md).
// Cost per iteration: n d / 2 words read for every sweep; n k d multiply-adds in bfloat16, and 3 d
//   flops for each of the 8 centroids of a group that is not ruled out.
// Limits: float32 data only; features are padded to 32 and clusters to 32. Needs a processor with
//   AMX and the operating system's permission, which refuse() asks for.
#include "impls/simd/support/narrow_lloyd.hpp"
#include "impls/simd/support/pair_sieve.hpp"

namespace clusterbench {
namespace {

class KmeansSimdAmx final : public simd::NarrowLloyd<simd::PairSieveMaker> {
public:
  KmeansSimdAmx() : NarrowLloyd(simd::tile_kernel()) {}
};

const Registration registration(
    {.name = "kmeans_simd_amx",
     .idea = "scores in bfloat16 by tiles of AMX, labels proven or compared in float32",
     .source = "Lloyd 1982",
     .previous = "kmeans_simd_bf16"},
    f32_only<KmeansSimdAmx>());

} // namespace
} // namespace clusterbench
